//! The vRDMA host daemon
