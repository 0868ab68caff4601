mod commands;
mod dma;
mod fuzz;
mod stream;
