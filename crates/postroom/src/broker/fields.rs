//! Fields of a message beside its body that are no CloudEvents attributes.

use std::collections::BTreeMap;

use crate::event::PAYLOAD_BYTES_MAX;

/// Most fields of a message that are kept.
const FIELDS_MAX: usize = 1_000;
/// All fields together, names and values, in bytes.
const FIELDS_BYTES_MAX: usize = PAYLOAD_BYTES_MAX;

/// Fields of a message that are neither its body nor CloudEvents attributes: other fields of a Redis entry, other headers of Kafka
/// and RabbitMQ. At most 1,000 fields and 1,000,000 bytes are kept; the rest is counted.
///
/// ```
/// let fields = postroom::Fields::from_iter([("eventName", "review.created"), ("memberId", "42")]);
/// assert_eq!(fields.text("memberId"), Some("42"));
/// assert_eq!(fields.text("eventId"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    values: BTreeMap<String, Vec<u8>>,
    bytes: usize,
    left_out: usize,
}

impl Fields {
    /// Adds a field, or counts it as left out if there are too many. A name that comes again replaces the value.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) {
        let (name, value) = (name.into(), value.into());
        let bytes = name.len() + value.len();
        if self.values.len() >= FIELDS_MAX || self.bytes + bytes > FIELDS_BYTES_MAX {
            self.left_out += 1;
            return;
        }
        let replaced = self.values.insert(name, value);
        self.bytes += bytes;
        self.bytes -= replaced.map_or(0, |value| value.len());
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.values.get(name).map(Vec::as_slice)
    }

    /// The value of a field, if it is UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.get(name)?).ok()
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.values
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Bytes of names and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of fields beyond the limits, which are not here.
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}

impl<N: Into<String>, V: Into<Vec<u8>>> FromIterator<(N, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut fields = Self::default();
        for (name, value) in pairs {
            fields.insert(name, value);
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_beyond_the_limits_are_counted() {
        let many = Fields::from_iter((0..1_002).map(|n| (format!("f{n}"), "1")));
        assert_eq!((many.iter().count(), many.left_out()), (1_000, 2));
        let large = Fields::from_iter([
            ("a", "x".repeat(999_000)),
            ("b", "x".repeat(2_000)),
            ("c", "x".to_owned()),
        ]);
        assert_eq!(
            (large.get("b"), large.text("c"), large.left_out()),
            (None, Some("x"), 1)
        );
        assert!(large.bytes() <= FIELDS_BYTES_MAX);
    }
}
