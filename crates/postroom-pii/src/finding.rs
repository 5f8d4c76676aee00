//! Places of a text that must not be stored, and their replacement.

use std::ops::Range;

use crate::{Kind, Removed};

/// A place that must not be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) range: Range<usize>,
    pub(crate) kind: Kind,
    /// The hash that replaces the place, instead of the mark of its kind.
    pub(crate) hash: Option<String>,
}

impl Finding {
    pub(crate) fn new(range: Range<usize>, kind: Kind) -> Self {
        Self {
            range,
            kind,
            hash: None,
        }
    }

    fn replacement(&self) -> &str {
        self.hash.as_deref().unwrap_or_else(|| self.kind.mark())
    }

    /// Takes over the place of a later finding that overlaps.
    fn absorb(&mut self, later: &Self) {
        if later.range.end <= self.range.end {
            return;
        }
        self.range.end = later.range.end;
        // The hash stands for less than the new place.
        self.hash = None;
    }
}

/// The text with each finding replaced. Findings that overlap are one.
pub(crate) fn replace(text: &str, mut findings: Vec<Finding>, removed: &mut Removed) -> String {
    findings.sort_by_key(|finding| (finding.range.start, usize::MAX - finding.range.end));
    let mut merged: Vec<Finding> = Vec::with_capacity(findings.len());
    for finding in findings {
        match merged.last_mut() {
            Some(last) if finding.range.start < last.range.end => last.absorb(&finding),
            _ => merged.push(finding),
        }
    }
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    for finding in &merged {
        clean.push_str(text.get(at..finding.range.start).unwrap_or_default());
        clean.push_str(finding.replacement());
        removed.add(finding.kind);
        at = finding.range.end;
    }
    clean.push_str(text.get(at..).unwrap_or_default());
    clean
}

#[cfg(test)]
mod tests {
    use super::{Finding, replace};
    use crate::{Kind, Removed};

    #[test]
    fn findings_that_overlap_are_replaced_once() {
        let mut removed = Removed::default();
        let hash = Finding {
            hash: Some("h:k:1".to_owned()),
            ..Finding::new(0..4, Kind::Keyword)
        };
        let findings = vec![
            Finding::new(6..9, Kind::Phone),
            Finding::new(2..3, Kind::Email),
            hash,
            Finding::new(5..7, Kind::Card),
        ];
        assert_eq!(replace("0123456789", findings, &mut removed), "h:k:14[card]9");
        assert_eq!(
            (removed.count(Kind::Keyword), removed.count(Kind::Card), removed.total()),
            (1, 1, 2)
        );
    }

    #[test]
    fn a_hash_is_not_kept_for_a_larger_place() {
        let hash = Finding {
            hash: Some("h:k:1".to_owned()),
            ..Finding::new(0..4, Kind::Keyword)
        };
        let findings = vec![hash, Finding::new(3..6, Kind::Email)];
        assert_eq!(
            replace("0123456789", findings, &mut Removed::default()),
            "[keyword]6789"
        );
    }
}
