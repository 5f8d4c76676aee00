//! The id of an entry in a stream.

use std::fmt;
use std::str::FromStr;

use postroom::{Error, Result};

/// A time in milliseconds and a sequence number within the millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(u64, u64);

impl Id {
    /// The largest id below this one.
    pub(crate) fn before(self) -> Self {
        match self {
            Self(ms, 0) => Self(ms.saturating_sub(1), u64::MAX),
            Self(ms, number) => Self(ms, number - 1),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

impl FromStr for Id {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text
            .split_once('-')
            .and_then(|(ms, number)| Some((ms.parse().ok()?, number.parse().ok()?)));
        parts
            .map(|(ms, number)| Self(ms, number))
            .ok_or_else(|| Error::invalid(format!("{text:?} is not the id of an entry in a stream")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_as_numbers() {
        let id = |text: &str| text.parse::<Id>().unwrap();
        assert!(id("9-10") < id("10-2"));
        assert!(id("9-9") < id("9-10"));
        assert_eq!(id("9-10").before(), id("9-9"));
        assert!(id("9-0").before() < id("9-0") && id("9-0").before() > id("8-7"));
        assert_eq!(id("9-10").to_string(), "9-10");
        assert!("9".parse::<Id>().is_err());
    }
}
