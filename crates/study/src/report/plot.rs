//! Drawings as SVG.

mod bars;
mod lines;

use std::fmt::Debug;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

pub(super) use bars::{Bars, Entry, bars};
pub(super) use lines::{Across, Lines, Series, lines};

type Area<'svg> = DrawingArea<SVGBackend<'svg>, Shift>;

const SIZE: (u32, u32) = (640, 400);
const FONT: &str = "sans-serif";
const GRID: RGBColor = RGBColor(225, 229, 235);
const LEGEND_BORDER: RGBColor = RGBColor(217, 222, 229);

/// Colours: ours and published of a configuration share one; each other configuration has its own.
const COLOURS: [RGBColor; 5] = [
    RGBColor(31, 102, 180),
    RGBColor(214, 96, 30),
    RGBColor(42, 138, 74),
    RGBColor(138, 70, 160),
    RGBColor(110, 110, 110),
];

/// Draws on an empty white page, and returns it as SVG.
fn drawn(draw: impl FnOnce(&Area<'_>) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(told)?;
        draw(&area)?;
        area.present().map_err(told)?;
    }
    Ok(svg)
}

/// Converts errors of the drawing library, which are not `Send`.
fn told(error: impl Debug) -> anyhow::Error {
    anyhow!("cannot draw: {error:?}")
}
