//! The carrier between stations that are plain engines, over wires that are vectors.

mod arrivals;
mod full;
mod groups;
mod guarantees;
mod hostile;
mod limits;
mod local;
mod locations;
mod moves;
mod remote;
mod shards;
mod turns;
mod weights;
mod world;
