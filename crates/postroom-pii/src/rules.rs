//! The settings of the firewall. Their defaults store as little as possible.

use crate::Kind;

/// The treatment of search words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeywordMode {
    /// A keyed hash is stored instead.
    #[default]
    Hash,
    /// Nothing is stored.
    Drop,
    /// The words are stored, without the personal data in them.
    Plain,
}

/// The treatment of IP addresses and of `User-Agent`, by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientMode {
    /// Nothing is stored.
    #[default]
    Drop,
    /// A keyed hash is stored instead.
    Hash,
}

/// The longest prose by default. A Hangul syllable counts two.
const PROSE_WIDTH_MAX: usize = 160;

/// The rules of a [`Firewall`](crate::Firewall). `Rules::default()` has all built-in rules.
///
/// Rules name keys without case and separators: `reviewText` also stands for `review_text` and `review-text`. A key that ends
/// with the words of a rule follows it, too: `userEmail` is treated like `email`.
#[derive(Debug, Clone)]
pub struct Rules {
    pub(crate) keywords: KeywordMode,
    pub(crate) addresses: ClientMode,
    pub(crate) user_agents: ClientMode,
    pub(crate) prose_width_max: Option<usize>,
    pub(crate) denied: Vec<(String, Kind)>,
    pub(crate) hashed: Vec<String>,
    pub(crate) allowed: Vec<String>,
    pub(crate) patterns: Vec<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            keywords: KeywordMode::default(),
            addresses: ClientMode::default(),
            user_agents: ClientMode::default(),
            prose_width_max: Some(PROSE_WIDTH_MAX),
            denied: Vec::new(),
            hashed: Vec::new(),
            allowed: Vec::new(),
            patterns: Vec::new(),
        }
    }
}

impl Rules {
    /// The treatment of search words. Default: [`KeywordMode::Hash`].
    #[must_use]
    pub fn keywords(mut self, mode: KeywordMode) -> Self {
        self.keywords = mode;
        self
    }

    /// The treatment of IP addresses. Default: [`ClientMode::Drop`].
    #[must_use]
    pub fn addresses(mut self, mode: ClientMode) -> Self {
        self.addresses = mode;
        self
    }

    /// The treatment of `User-Agent`. Default: [`ClientMode::Drop`].
    #[must_use]
    pub fn user_agents(mut self, mode: ClientMode) -> Self {
        self.user_agents = mode;
        self
    }

    /// The longest prose that a document may have under any key; a Hangul syllable counts two. Longer prose of twelve words or
    /// more is removed as a review body. `None`: no limit. Default: 160.
    #[must_use]
    pub fn prose_width_max(mut self, width: Option<usize>) -> Self {
        self.prose_width_max = width;
        self
    }

    /// Removes the values of this key.
    #[must_use]
    pub fn deny(mut self, key: &str, kind: Kind) -> Self {
        self.denied.push((key.to_owned(), kind));
        self
    }

    /// Treats the values of this key like search words.
    #[must_use]
    pub fn hash(mut self, key: &str) -> Self {
        self.hashed.push(key.to_owned());
        self
    }

    /// Exempts exactly this key from all rules about keys. Its values are still searched.
    #[must_use]
    pub fn allow(mut self, key: &str) -> Self {
        self.allowed.push(key.to_owned());
        self
    }

    /// Removes the matches of a regular expression from all texts, as [`Kind::Custom`].
    #[must_use]
    pub fn pattern(mut self, pattern: &str) -> Self {
        self.patterns.push(pattern.to_owned());
        self
    }
}
