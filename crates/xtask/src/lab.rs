//! `cargo xtask lab`: the lab's image and its pairs of guests.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use vrdma_lab::image::{Accelerator, Image};

#[derive(Subcommand)]
pub(crate) enum Lab {
    /// Build the guests' image, unless the cache has it
    Image,
}

impl Lab {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self {
            Self::Image => image(),
        }
    }
}

fn image() -> Result<ExitCode> {
    let image = Image::ensure()?;
    println!("{}", image.folder().display());
    println!("guests run under {:?}", Accelerator::choose(&image)?);
    Ok(ExitCode::SUCCESS)
}
