//! Rows in columns.

use crate::output::{self, Paint, Tone, clean, cut};

/// Two spaces between columns.
const GAP: &str = "  ";

/// A table of text. The last column takes what is left of the line.
#[derive(Debug, Default)]
pub struct Listing {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug)]
struct Column {
    title: &'static str,
    is_number: bool,
}

/// One field of a row.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// This text in this tone.
    pub fn new(tone: Tone, text: impl ToString) -> Self {
        Self {
            text: clean(&text.to_string()),
            tone,
        }
    }
}

impl<T: ToString> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(Tone::Plain, text)
    }
}

impl Listing {
    /// A table with these columns; a title that begins with `#` is a number and stands to the right.
    pub fn new(titles: &[&'static str]) -> Self {
        let column = |title: &&'static str| Column {
            title: title.trim_start_matches('#'),
            is_number: title.starts_with('#'),
        };
        Self {
            columns: titles.iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines, the titles first; cut to `width` where it is known.
    pub fn lines(&self, width: Option<usize>, paint: Paint) -> Vec<String> {
        let widths = self.widths();
        let titles: Vec<Cell> = self
            .columns
            .iter()
            .map(|column| Cell::new(Tone::Faint, column.title))
            .collect();
        std::iter::once(&titles)
            .chain(&self.rows)
            .map(|row| self.line(row, &widths, width, paint))
            .collect()
    }

    /// The lines as one text for the terminal, or for a file if there is none.
    pub fn text(&self) -> String {
        self.lines(output::columns(), Paint::detect()).join("\n")
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|column| column.title.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
        widths
    }

    fn line(&self, row: &[Cell], widths: &[usize], line_width: Option<usize>, paint: Paint) -> String {
        let mut line = String::new();
        let mut left = line_width.unwrap_or(usize::MAX);
        let last = row.len().saturating_sub(1);
        for (at, ((cell, column), width)) in row.iter().zip(&self.columns).zip(widths).enumerate() {
            let text = cut(&cell.text, left);
            let padded = match column.is_number {
                true => format!("{text:>width$}"),
                false if at == last => text,
                false => format!("{text:<width$}"),
            };
            left = left.saturating_sub(padded.chars().count() + GAP.len());
            line.push_str(&paint.paint(cell.tone, &padded));
            if at != last {
                line.push_str(GAP);
            }
            if left == 0 {
                break;
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_the_last_one_is_cut() {
        let mut listing = Listing::new(&["route", "#dead", "says"]);
        listing.row(["orders".into(), 7.into(), "all is well".into()]);
        listing.row(["a".into(), 1234.into(), "".into()]);
        let lines = |width| listing.lines(width, Paint::off());
        assert_eq!(
            lines(None),
            ["route   dead  says", "orders     7  all is well", "a       1234"]
        );
        assert_eq!(
            lines(Some(20)),
            ["route   dead  says", "orders     7  all i…", "a       1234"]
        );
        assert_eq!(lines(Some(3)), ["ro…", "or…", "a"]);
    }
}
