//! Searches texts with all detectors, in all views, until nothing is found any more.

use std::ops::Range;

use regex::Regex;

use crate::detect::email::Disguised;
use crate::detect::secret::{Secrets, compiled};
use crate::detect::{assignment, email, encoded, number, spelled};
use crate::finding::{Finding, replace};
use crate::hints::Hints;
use crate::key_name::{KeyNames, Treatment};
use crate::view::View;
use crate::{Invalid, Keys, Kind, Removed, Rules};

/// Longer texts are removed as a whole: a search needs a multiple of their size in memory.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// The levels of percent-encoding, entities and escapes that are decoded.
const DECODINGS_MAX: usize = 4;
/// The levels of base64 inside base64.
const LEVELS_MAX: usize = 3;
/// Searches of one text: replacing a finding can bring the text on its sides together.
const ROUNDS_MAX: usize = 4;
/// The shortest number that is searched.
const DIGITS_MIN: usize = 7;

/// All detectors.
#[derive(Debug)]
pub(crate) struct Search {
    pub(crate) names: KeyNames,
    pub(crate) keys: Keys,
    secrets: Secrets,
    disguised: Disguised,
    patterns: Vec<Regex>,
}

impl Search {
    pub(crate) fn new(rules: &Rules, keys: Keys) -> Result<Self, Invalid> {
        Ok(Self {
            names: KeyNames::new(rules)?,
            keys,
            secrets: Secrets::new()?,
            disguised: Disguised::new()?,
            patterns: rules
                .patterns
                .iter()
                .map(|pattern| checked(pattern))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The text without its findings. `None`: nothing was found.
    pub(crate) fn clean(&self, text: &str, removed: &mut Removed) -> Option<String> {
        if text.len() > TEXT_BYTES_MAX {
            removed.add(Kind::TooLong);
            return Some(Kind::TooLong.mark().to_owned());
        }
        let mut clean: Option<String> = None;
        for _ in 0..ROUNDS_MAX {
            let text = clean.as_deref().unwrap_or(text);
            let findings = self.find(text, 0);
            if findings.is_empty() {
                return clean;
            }
            clean = Some(replace(text, findings, removed));
        }
        let left = self.find(clean.as_deref().unwrap_or(text), 0);
        match left.first() {
            // Rather no text than a text with a finding.
            Some(finding) => Some(finding.kind.mark().to_owned()),
            None => clean,
        }
    }

    /// All findings of a text, in the ranges of this text.
    pub(crate) fn find(&self, text: &str, level: usize) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut view = View::of(text);
        for _ in 0..=DECODINGS_MAX {
            self.find_in_view(&view, level, &mut findings);
            match view.decoded() {
                Some(decoded) => view = decoded,
                None => break,
            }
        }
        findings
    }

    fn find_in_view(&self, view: &View<'_>, level: usize, findings: &mut Vec<Finding>) {
        let text = &*view.text;
        let hints = Hints::of(text);
        let mut found = Vec::new();
        let mut report = |range, kind| found.push(Finding::new(range, kind));
        if hints.digits >= DIGITS_MIN {
            number::find(text, &mut report);
        }
        if hints.has_at_sign {
            email::find(text, |range| report(range, Kind::Email));
        }
        if hints.has_space || hints.has_bracket || hints.has_letters_of_other_scripts || text.contains("_at_") {
            self.disguised.find(text, |range| report(range, Kind::Email));
        }
        if (hints.has_letters_of_other_scripts || hints.has_space) && spelled::is_possible(text) {
            spelled::find(text, |range| report(range, Kind::Phone));
        }
        self.secrets.find(text, &hints, &mut report);
        for pattern in &self.patterns {
            pattern
                .find_iter(text)
                .for_each(|found| report(found.range(), Kind::Custom));
        }
        if hints.has_assignment {
            assignment::find(text, &self.names, |assigned| {
                found.extend(self.assigned(text, assigned));
            });
        }
        if hints.has_long_run && level < LEVELS_MAX {
            let search = |decoded: &str| self.find(decoded, level + 1).first().map(|finding| finding.kind);
            encoded::find(text, search, |range, kind| found.push(Finding::new(range, kind)));
        }
        if !found.is_empty() {
            let ids = self.ids(text);
            found.retain(|finding| !is_inside(&ids, &finding.range));
            findings.extend(found.into_iter().map(|finding| Finding {
                range: view.origin(finding.range),
                ..finding
            }));
        }
    }

    fn assigned(&self, text: &str, assigned: assignment::Assigned) -> Option<Finding> {
        let value = text.get(assigned.range.clone())?;
        match assigned.treatment {
            Treatment::Remove(kind) => Some(Finding::new(assigned.range, kind)),
            Treatment::Hash(_) if self.keys.is_hash(value) => None,
            Treatment::Hash(kind) => {
                let hash = Some(self.keys.hash(&form_decoded(value)));
                Some(Finding {
                    hash,
                    ..Finding::new(assigned.range, kind)
                })
            }
        }
    }

    /// The places of UUIDs and of our own hashes. Their digits are random.
    fn ids(&self, text: &str) -> Vec<Range<usize>> {
        let mut ids = Vec::new();
        let mut is_start = true;
        let mut at = 0;
        for (next, byte) in text.bytes().enumerate() {
            if is_start && next >= at {
                let rest = text.get(next..).unwrap_or_default();
                let length = uuid_length(rest).or_else(|| self.keys.leading_hash(rest).map(str::len));
                ids.extend(length.map(|length| next..next + length));
                at = next + length.unwrap_or(0);
            }
            is_start = !byte.is_ascii_alphanumeric();
        }
        ids
    }
}

fn is_inside(places: &[Range<usize>], range: &Range<usize>) -> bool {
    let after = places.partition_point(|place| place.start <= range.start);
    let place = after.checked_sub(1).and_then(|at| places.get(at));
    place.is_some_and(|place| range.end <= place.end)
}

/// The length of a UUID at the start of a text.
fn uuid_length(text: &str) -> Option<usize> {
    const UUID_BYTES: usize = 36;
    let uuid = text.as_bytes().get(..UUID_BYTES)?;
    let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    let is_uuid = uuid.iter().enumerate().all(|(at, byte)| {
        if is_dash(at) {
            *byte == b'-'
        } else {
            byte.is_ascii_hexdigit()
        }
    });
    let is_longer = text.as_bytes().get(UUID_BYTES).is_some_and(u8::is_ascii_alphanumeric);
    (is_uuid && !is_longer).then_some(UUID_BYTES)
}

/// The value of a query parameter as a person typed it.
fn form_decoded(value: &str) -> String {
    let spaced = value.replace('+', " ");
    let decoded = View::of(&spaced).decoded();
    decoded.map_or_else(|| spaced.clone(), |view| view.text.into_owned())
}

/// A pattern of a user: it must not match its own result.
fn checked(pattern: &str) -> Result<Regex, Invalid> {
    let regex = compiled(pattern)?;
    let results = std::iter::once("").chain(Kind::ALL.iter().map(|kind| kind.mark()));
    match results.into_iter().find(|result| regex.is_match(result)) {
        Some(text) => Err(Invalid::PatternTooWide {
            pattern: pattern.to_owned(),
            text,
        }),
        None => Ok(regex),
    }
}
