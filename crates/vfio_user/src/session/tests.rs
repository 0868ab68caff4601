mod commands;
mod dma;
mod fuzz;
mod migrating;
mod state;
mod stream;
