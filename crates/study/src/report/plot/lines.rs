//! Figures over sizes or ranks, as lines.

use anyhow::Result;
use plotters::prelude::*;

use super::{Area, COLOURS, FONT, GRID, LEGEND_BORDER, drawn, told};
use crate::report::number::{size, three_digits};

/// The points of one line.
#[derive(Debug)]
pub(in crate::report) struct Series {
    /// The configuration, and what follows it after a comma.
    pub(in crate::report) name: String,
    /// Whether the figures are ours and not published ones.
    pub(in crate::report) is_ours: bool,
    pub(in crate::report) points: Vec<(f64, f64)>,
}

/// Figures over sizes or ranks, both axes logarithmic.
#[derive(Debug)]
pub(in crate::report) struct Lines {
    pub(in crate::report) title: String,
    pub(in crate::report) across: Across,
    pub(in crate::report) unit: &'static str,
    /// Series; ours and published of a configuration follow each other.
    pub(in crate::report) series: Vec<Series>,
}

/// The horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Across {
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

pub(in crate::report) fn lines(lines: &Lines) -> Result<String> {
    drawn(|area| draw(area, lines))
}

fn draw(area: &Area<'_>, lines: &Lines) -> Result<()> {
    let points = || lines.series.iter().flat_map(|series| &series.points);
    let across = range(points().map(|point| point.0));
    let mut up = range(points().map(|point| point.1));
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
        .bold_line_style(GRID)
        .x_labels(12)
        .y_labels(8)
        .x_desc(lines.across.title())
        .y_desc(lines.unit)
        .x_label_formatter(&|value| lines.across.label(*value))
        .y_label_formatter(&|value| three_digits(*value))
        .label_style((FONT, 13))
        .draw()
        .map_err(told)?;
    for (series, style) in lines.series.iter().zip(styles(&lines.series)) {
        let points = &series.points;
        let stroke = style.stroke;
        let line = chart
            .draw_series(LineSeries::new(points.iter().copied(), stroke))
            .map_err(told)?;
        line.label(series.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], stroke));
        chart
            .draw_series(points.iter().map(|&at| Circle::new(at, 3, style.dot)))
            .map_err(told)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(LEGEND_BORDER)
        .label_font((FONT, 13))
        .draw()
        .map_err(told)
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

/// The look of one line and its points.
struct Style {
    stroke: ShapeStyle,
    dot: ShapeStyle,
}

/// A colour for each configuration; its published figures are paler.
fn styles(all: &[Series]) -> Vec<Style> {
    let mut configurations: Vec<&str> = Vec::new();
    let mut style = |series| {
        let Series { name, is_ours, .. }: &Series = series;
        let configuration = name.split(',').next().unwrap_or(name);
        if !configurations.contains(&configuration) {
            configurations.push(configuration);
        }
        let colour = COLOURS[(configurations.len() - 1) % COLOURS.len()];
        if *is_ours {
            Style {
                stroke: colour.stroke_width(2),
                dot: colour.filled(),
            }
        } else {
            Style {
                stroke: colour.mix(0.45).stroke_width(2),
                dot: colour.mix(0.6).stroke_width(1),
            }
        }
    };
    all.iter().map(&mut style).collect()
}
