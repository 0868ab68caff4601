//! A small PVRDMA driver for tests: device and driver meet in one process
