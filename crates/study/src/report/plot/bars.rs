//! Ratios of entries, as bars: published and ours beside each other.

use anyhow::Result;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::{Area, COLOURS, FONT, GRID, LEGEND_BORDER, drawn, told};
use crate::report::number::three_digits;

type Chart<'area, 'svg> =
    ChartContext<'area, SVGBackend<'svg>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Share of its place that a bar takes.
const BAR: f64 = 0.36;

/// Number of entries above which names are smaller.
const CROWD: usize = 5;

/// One place on the horizontal axis.
#[derive(Debug)]
pub(in crate::report) struct Entry {
    /// Configuration, and after a blank the size.
    pub(in crate::report) name: String,
    pub(in crate::report) published: Option<f64>,
    pub(in crate::report) ours: Option<f64>,
}

/// Published and our ratio of each entry.
#[derive(Debug)]
pub(in crate::report) struct Bars {
    pub(in crate::report) title: String,
    pub(in crate::report) entries: Vec<Entry>,
}

/// The bars of one colour.
struct Column {
    name: &'static str,
    colour: RGBColor,
    /// Left edge of a bar, from the middle of its place.
    left: f64,
    value: fn(&Entry) -> Option<f64>,
}

const COLUMNS: [Column; 2] = [
    Column {
        name: "published",
        colour: COLOURS[1],
        left: -BAR,
        value: |entry| entry.published,
    },
    Column {
        name: "ours",
        colour: COLOURS[0],
        left: 0.0,
        value: |entry| entry.ours,
    },
];

impl Column {
    /// Left edge and height of the bar of each entry that has a value.
    fn bars<'a>(&'a self, entries: &'a [Entry]) -> impl Iterator<Item = (f64, f64)> + 'a {
        entries.iter().enumerate().filter_map(|(index, entry)| {
            let value = (self.value)(entry)?;
            Some((index as f64 + 0.5 + self.left, value))
        })
    }
}

pub(in crate::report) fn bars(bars: &Bars) -> Result<String> {
    drawn(|area| draw(area, bars))
}

fn draw(area: &Area<'_>, bars: &Bars) -> Result<()> {
    let heights = |column: &Column| {
        column
            .bars(&bars.entries)
            .map(|bar| bar.1)
            .collect::<Vec<_>>()
    };
    let top = COLUMNS.iter().flat_map(heights).fold(1.0_f64, f64::max) * 1.4;
    let count = bars.entries.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(&bars.title, (FONT, 18))
        .margin(12)
        .x_label_area_size(38)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..count, 0.0..top)
        .map_err(told)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .y_label_formatter(&|value| format!("{value:.1}"))
        .label_style((FONT, 13))
        .draw()
        .map_err(told)?;
    for column in &COLUMNS {
        draw_column(&mut chart, column, &bars.entries)?;
    }
    draw_names(&mut chart, &bars.entries)?;
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(LEGEND_BORDER)
        .label_font((FONT, 13))
        .draw()
        .map_err(told)
}

fn draw_column(chart: &mut Chart<'_, '_>, column: &Column, entries: &[Entry]) -> Result<()> {
    let colour = column.colour;
    let bar = |(left, value)| {
        let corners = [(left, 0.0), (left + BAR * 0.94, value)];
        Rectangle::new(corners, colour.filled())
    };
    let series = chart
        .draw_series(column.bars(entries).map(bar))
        .map_err(told)?;
    series
        .label(column.name)
        .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
    let label = |(left, value)| {
        EmptyElement::at((left + BAR * 0.47, value))
            + Text::new(three_digits(value), (0, -8), centred(12))
    };
    let labels = column.bars(entries).map(label);
    chart.draw_series(labels).map(drop).map_err(told)
}

/// Draws the names below the bars: configuration and size in two lines.
fn draw_names(chart: &mut Chart<'_, '_>, entries: &[Entry]) -> Result<()> {
    let font = if entries.len() > CROWD { 10 } else { 13 };
    let name = |(index, entry): (usize, &Entry)| {
        let (first, second) = entry.name.split_once(' ').unwrap_or((&entry.name, ""));
        EmptyElement::at((index as f64 + 0.5, 0.0))
            + Text::new(first.to_owned(), (0, 13), centred(font))
            + Text::new(second.to_owned(), (0, 27), centred(font))
    };
    let names = entries.iter().enumerate().map(name);
    chart.draw_series(names).map(drop).map_err(told)
}

fn centred(size: i32) -> TextStyle<'static> {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    TextStyle::from((FONT, size).into_font()).pos(Pos::new(HPos::Center, VPos::Center))
}
