//! The virtual switch: who gets this frame or message, by which policy
