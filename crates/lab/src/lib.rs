//! VM images, QEMU guests and networks as fixtures for tests, demo and study
