//! The PVRDMA device: registers, commands, rings and doorbells
