//! The numbers that the five studies published, with the digits they printed.
//!
//! ```text
//!  published/s0.toml .. s4.toml  (in the program)
//!    title, year, setting, claims in words
//!    [[table]]  measure, unit, configurations = [c1, c2 ..]
//!               rows = [[size, value of c1, value of c2 ..] ..]    "" where there is a reason instead, in `note`
//! ```
//!
//! A microsecond of a 2012 adapter says nothing about a software device. A [`ratio`] can be compared between machines:
//! virtual / native, RDMA / TCP.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::key::{CellKey, Key, KeyError, Study};

const FILES: [&str; 5] = [
    include_str!("../published/s0.toml"),
    include_str!("../published/s1.toml"),
    include_str!("../published/s2.toml"),
    include_str!("../published/s3.toml"),
    include_str!("../published/s4.toml"),
];

/// One study.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Publication {
    /// The study.
    pub study: Study,
    /// The title as published.
    pub title: String,
    /// Paper, slides, report or note.
    pub kind: String,
    /// Year of publication.
    pub year: u16,
    /// What was measured, and with what, in a sentence or two.
    pub setting: String,
    /// Its claims in words, each a sentence.
    pub claims: Vec<String>,
    /// Its numbers, in its order.
    pub figures: Vec<Published>,
    /// The meshes that it names (s3).
    pub cases: Vec<Case>,
}

/// One place in a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Published {
    /// Its key, which our figure has too.
    pub key: Key,
    /// `None`: the study has the row but no value; `note` gives the reason.
    pub number: Option<Number>,
    /// Unit of the number.
    pub unit: String,
    /// What a reader must know about it.
    pub note: Option<String>,
}

/// A number with the digits that were printed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Number {
    /// The digits.
    pub text: String,
    /// Their value.
    pub value: f64,
}

/// A mesh and time step of OpenFOAM's cavity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name, as in the sizes of its figures.
    pub name: String,
    /// Cells along x, y and z.
    pub mesh: [u32; 3],
    /// Seconds, as printed.
    pub time_step: String,
}

/// A table that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PublishedError {
    /// A table of another shape than above.
    #[error("the published tables: {0}")]
    Shape(#[from] toml::de::Error),
    /// A name that is no key.
    #[error("the published tables: {0}")]
    Key(#[from] KeyError),
    /// A row that does not fit its table.
    #[error("the published tables: {0} at size {1:?}: {2}")]
    Row(String, String, &'static str),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    study: Study,
    title: String,
    kind: String,
    year: u16,
    setting: String,
    claims: Vec<String>,
    #[serde(default)]
    case: Vec<Case>,
    table: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    measure: String,
    unit: String,
    configurations: Vec<String>,
    note: Option<String>,
    rows: Vec<Vec<String>>,
}

/// All five studies, in order.
///
/// # Errors
/// When the built-in tables are wrong.
pub fn all() -> Result<Vec<Publication>, PublishedError> {
    FILES.iter().map(|text| read(text)).collect()
}

/// The figure of this key.
#[must_use]
pub fn find<'a>(all: &'a [Publication], key: &Key) -> Option<&'a Published> {
    let of_study = all.iter().filter(|one| one.study == key.cell.study);
    of_study
        .flat_map(|one| &one.figures)
        .find(|figure| figure.key == *key)
}

/// One figure divided by another, as in virtual / native; `None` without both values.
#[must_use]
pub fn ratio(all: &[Publication], of: &Key, to: &Key) -> Option<f64> {
    let value = |key| Some(find(all, key)?.number.as_ref()?.value);
    Some(value(of)? / value(to)?)
}

fn read(text: &str) -> Result<Publication, PublishedError> {
    let file: File = toml::from_str(text)?;
    let mut figures = Vec::new();
    for table in &file.table {
        for row in &table.rows {
            figures.extend(table.row(file.study, row)?);
        }
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = figures.iter().find(|figure| !seen.insert(&figure.key)) {
        let key = &twice.key;
        return Err(PublishedError::Row(
            key.cell.to_string(),
            key.size.clone(),
            "it is there twice",
        ));
    }
    Ok(Publication {
        study: file.study,
        title: file.title,
        kind: file.kind,
        year: file.year,
        setting: file.setting,
        claims: file.claims,
        figures,
        cases: file.case,
    })
}

impl Table {
    fn row(&self, study: Study, row: &[String]) -> Result<Vec<Published>, PublishedError> {
        let wrong = |size: &str, what| {
            PublishedError::Row(format!("{study}/{}", self.measure), size.to_owned(), what)
        };
        let (size, values) = row
            .split_first()
            .ok_or_else(|| wrong("", "the row is empty"))?;
        if values.len() != self.configurations.len() {
            return Err(wrong(size, "the row has not one value a configuration"));
        }
        let figures = self.configurations.iter().zip(values);
        figures
            .map(|(configuration, text)| {
                let key = CellKey::new(study, &self.measure, configuration).at(size.as_str());
                // Parsing checks the characters.
                let key: Key = key.to_string().parse()?;
                let number = number(text).map_err(|what| wrong(size, what))?;
                if number.is_none() && self.note.is_none() {
                    return Err(wrong(size, "there is neither a value nor a note"));
                }
                Ok(Published {
                    key,
                    number,
                    unit: self.unit.clone(),
                    note: self.note.clone(),
                })
            })
            .collect()
    }
}

fn number(text: &str) -> Result<Option<Number>, &'static str> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(value) if f64::is_finite(value) && value > 0.0 => Ok(Some(Number {
            text: text.to_owned(),
            value,
        })),
        _ => Err("the value is no positive number"),
    }
}

#[cfg(test)]
mod tests;
