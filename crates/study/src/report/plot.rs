//! Drawings as SVG.

use std::fmt::Debug;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::number::{size, three_digits};

const SIZE: (u32, u32) = (640, 400);
const FONT: &str = "sans-serif";

/// Colours: ours and published of a configuration share one; each other configuration has its own.
const COLOURS: [RGBColor; 5] = [
    RGBColor(31, 102, 180),
    RGBColor(214, 96, 30),
    RGBColor(42, 138, 74),
    RGBColor(138, 70, 160),
    RGBColor(110, 110, 110),
];

/// Name, whether it is ours, points.
pub(super) type Series = (String, bool, Vec<(f64, f64)>);

/// Figures over sizes or ranks, both axes logarithmic.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) title: String,
    pub(super) across: Across,
    pub(super) unit: &'static str,
    /// Series; ours and published of a configuration follow each other.
    pub(super) series: Vec<Series>,
}

/// The horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Across {
    /// Bytes of a message.
    Sizes,
    /// Ranks, each with the same amount of work.
    Ranks,
}

impl Across {
    const fn title(self) -> &'static str {
        match self {
            Self::Sizes => "message size",
            Self::Ranks => "ranks, each with as much to do",
        }
    }

    fn label(self, value: f64) -> String {
        match self {
            Self::Sizes => size(&format!("{value:.0}")),
            Self::Ranks => format!("{value:.0}"),
        }
    }
}

/// Published and our ratio of each entry.
#[derive(Debug)]
pub(super) struct Bars {
    pub(super) title: String,
    pub(super) entries: Vec<(String, [Option<f64>; 2])>,
}

/// Converts errors of the drawing library, which are not `Send`.
fn told(error: impl Debug) -> anyhow::Error {
    anyhow!("cannot draw: {error:?}")
}

pub(super) fn lines(lines: &Lines) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(told)?;
        draw_lines(&area, lines)?;
        area.present().map_err(told)?;
    }
    Ok(svg)
}

/// The range of all points, with some margin.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (mut low, mut high) = (f64::MAX, f64::MIN);
    for value in values.filter(|value| *value > 0.0) {
        (low, high) = (low.min(value), high.max(value));
    }
    if low > high {
        return 1.0..10.0;
    }
    low / 1.3..high * 1.3
}

fn draw_lines(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    lines: &Lines,
) -> Result<()> {
    let points = || lines.series.iter().flat_map(|(_, _, points)| points);
    let (across, mut up) = (
        range(points().map(|point| point.0)),
        range(points().map(|point| point.1)),
    );
    // Room for the legend above the lines.
    up.end *= (up.end / up.start).powf(0.35);
    let mut chart = ChartBuilder::on(area)
        .caption(&lines.title, (FONT, 18))
        .margin(12)
        .x_label_area_size(38)
        .y_label_area_size(62)
        .build_cartesian_2d(across.log_scale().base(2.0), up.log_scale().base(2.0))
        .map_err(told)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 229, 235))
        .x_labels(12)
        .y_labels(8)
        .x_desc(lines.across.title())
        .y_desc(lines.unit)
        .x_label_formatter(&|value| lines.across.label(*value))
        .y_label_formatter(&|value| three_digits(*value))
        .label_style((FONT, 13))
        .draw()
        .map_err(told)?;
    let mut names: Vec<&str> = Vec::new();
    for (name, is_ours, points) in &lines.series {
        let configuration = name.split(',').next().unwrap_or(name);
        if !names.contains(&configuration) {
            names.push(configuration);
        }
        let colour = COLOURS[(names.len() - 1) % COLOURS.len()];
        let (stroke, dot) = if *is_ours {
            (colour.stroke_width(2), colour.filled())
        } else {
            (
                colour.mix(0.45).stroke_width(2),
                colour.mix(0.6).stroke_width(1),
            )
        };
        let series = chart
            .draw_series(LineSeries::new(points.iter().copied(), stroke))
            .map_err(told)?;
        series
            .label(name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], stroke));
        chart
            .draw_series(points.iter().map(|&point| Circle::new(point, 3, dot)))
            .map_err(told)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(217, 222, 229))
        .label_font((FONT, 13))
        .draw()
        .map_err(told)
}

/// Share of its place that a bar takes.
const BAR: f64 = 0.36;

/// Number of entries above which names are smaller.
const CROWD: usize = 5;

pub(super) fn bars(bars: &Bars) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(told)?;
        draw_bars(&area, bars)?;
        area.present().map_err(told)?;
    }
    Ok(svg)
}

fn draw_bars(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    bars: &Bars,
) -> Result<()> {
    let values = bars
        .entries
        .iter()
        .flat_map(|(_, values)| values.iter().flatten());
    let top = values.fold(1.0_f64, |top, value| top.max(*value)) * 1.4;
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
        .bold_line_style(RGBColor(225, 229, 235))
        .y_label_formatter(&|value| format!("{value:.1}"))
        .label_style((FONT, 13))
        .draw()
        .map_err(told)?;
    for (who, name) in ["published", "ours"].into_iter().enumerate() {
        let colour = COLOURS[1 - who];
        let left = |index: usize| index as f64 + 0.5 + (who as f64 - 1.0) * BAR;
        let bar = |(index, (_, values)): (usize, &(String, [Option<f64>; 2]))| {
            let value = values[who]?;
            Some(Rectangle::new(
                [(left(index), 0.0), (left(index) + BAR * 0.94, value)],
                colour.filled(),
            ))
        };
        let series = chart
            .draw_series(bars.entries.iter().enumerate().filter_map(bar))
            .map_err(told)?;
        series
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
        let label = |(index, (_, values)): (usize, &(String, [Option<f64>; 2]))| {
            let value = values[who]?;
            let place = (left(index) + BAR * 0.47, value);
            Some(EmptyElement::at(place) + Text::new(three_digits(value), (0, -8), centred(12)))
        };
        chart
            .draw_series(bars.entries.iter().enumerate().filter_map(label))
            .map_err(told)?;
    }
    let font = if bars.entries.len() > CROWD { 10 } else { 13 };
    let names = bars.entries.iter().enumerate();
    // Configuration and size in two lines.
    let name = |(index, (name, _)): (usize, &(String, [Option<f64>; 2]))| {
        let (first, second) = name.split_once(' ').unwrap_or((name, ""));
        EmptyElement::at((index as f64 + 0.5, 0.0))
            + Text::new(first.to_owned(), (0, 13), centred(font))
            + Text::new(second.to_owned(), (0, 27), centred(font))
    };
    chart.draw_series(names.map(name)).map_err(told)?;
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(217, 222, 229))
        .label_font((FONT, 13))
        .draw()
        .map_err(told)
}

fn centred(size: i32) -> TextStyle<'static> {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    TextStyle::from((FONT, size).into_font()).pos(Pos::new(HPos::Center, VPos::Center))
}
