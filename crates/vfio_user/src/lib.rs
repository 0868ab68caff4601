//! Server side of the vfio-user protocol
