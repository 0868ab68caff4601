//! Number types and formats on the wire
