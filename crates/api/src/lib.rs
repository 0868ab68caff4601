//! Control API types shared by daemon and command line
