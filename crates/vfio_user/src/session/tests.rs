mod commands;
mod dma;
mod fuzz;
mod state;
mod stream;
