//! Tests of the room as a whole: captured packets, fuzz bodies, house rules.

mod arbitrary;
mod capture;
mod golden;
mod house;
