//! The kinds of data that the firewall removes, and counts of them. Nothing here holds a removed value.

use std::fmt;

/// A kind of data that is never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// A JWT, an access, refresh or API key, a bearer token, a cookie.
    Token,
    /// A password, or the user part of a URL.
    Password,
    /// An e-mail address.
    Email,
    /// A phone number.
    Phone,
    /// The number of a payment card.
    Card,
    /// A Korean resident registration number, or one for foreigners.
    ResidentNumber,
    /// The body of a review or a comment.
    ReviewBody,
    /// A search word. Counted when it is hashed, too.
    Keyword,
    /// The IP address of a client.
    ClientAddress,
    /// The `User-Agent` of a client.
    UserAgent,
    /// A match of a pattern of [`Rules::pattern`](crate::Rules::pattern).
    Custom,
    /// A part of a document that is nested too deep.
    TooDeep,
    /// A text that is too long to be searched.
    TooLong,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::Token,
        Self::Password,
        Self::Email,
        Self::Phone,
        Self::Card,
        Self::ResidentNumber,
        Self::ReviewBody,
        Self::Keyword,
        Self::ClientAddress,
        Self::UserAgent,
        Self::Custom,
        Self::TooDeep,
        Self::TooLong,
    ];

    /// The stable name, for metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.mark().split_at(1).1.split_at(self.mark().len() - 2).0
    }

    /// The mark that replaces a removed value: the name in brackets.
    #[must_use]
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Token => "[token]",
            Self::Password => "[password]",
            Self::Email => "[email]",
            Self::Phone => "[phone]",
            Self::Card => "[card]",
            Self::ResidentNumber => "[resident_number]",
            Self::ReviewBody => "[review_body]",
            Self::Keyword => "[keyword]",
            Self::ClientAddress => "[client_address]",
            Self::UserAgent => "[user_agent]",
            Self::Custom => "[custom]",
            Self::TooDeep => "[too_deep]",
            Self::TooLong => "[too_long]",
        }
    }

    /// Whether a text is exactly the mark of some kind.
    pub(crate) fn is_mark(text: &str) -> bool {
        text.starts_with('[') && Self::ALL.iter().any(|kind| kind.mark() == text)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How many values of each kind were removed.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    counts: [u64; Kind::ALL.len()],
}

impl Removed {
    /// The count of one kind.
    #[must_use]
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts.get(kind as usize).copied().unwrap_or(0)
    }

    /// The kinds that were removed, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, u64)> + '_ {
        let counts = Kind::ALL.into_iter().map(|kind| (kind, self.count(kind)));
        counts.filter(|(_, count)| *count > 0)
    }

    /// The count of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Whether nothing was removed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }

    pub(crate) fn add(&mut self, kind: Kind) {
        if let Some(count) = self.counts.get_mut(kind as usize) {
            *count += 1;
        }
    }

    /// Adds the counts of another document.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
    }
}

impl fmt::Debug for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(kind, count)| (kind.name(), count)))
            .finish()
    }
}

/// A value without personal data, and the counts of what was removed.
#[derive(Debug, Clone, PartialEq)]
pub struct Cleaned<T> {
    /// The value that may be stored.
    pub value: T,
    /// Counts of the removed data.
    pub removed: Removed,
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn the_names_of_kinds_are_stable_and_the_order_is_that_of_the_enum() {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(
            names,
            [
                "token",
                "password",
                "email",
                "phone",
                "card",
                "resident_number",
                "review_body",
                "keyword",
                "client_address",
                "user_agent",
                "custom",
                "too_deep",
                "too_long"
            ]
        );
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at, "{kind}");
        }
    }
}
