//! Why a connection ends, and what its client is told.

use std::fmt;

use axum::body::Bytes;

use crate::Frame;

/// Why the server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The client took nothing for too long while frames were waiting.
    Slow,
    /// Its token has expired.
    Expired,
    /// It has lived as long as connections may.
    Lifetime,
    /// The instances cannot reach what they share.
    Unavailable,
    /// The process stops.
    Drain,
    /// A younger connection of the member took its place, or somebody disconnected it. It must not come back by itself.
    Evicted,
    /// Rows of its stream are no longer in the database. The client opens the stream again and is told where it goes on.
    Gap,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 7] = [
        Self::Slow,
        Self::Expired,
        Self::Lifetime,
        Self::Unavailable,
        Self::Drain,
        Self::Evicted,
        Self::Gap,
    ];

    /// Its name for clients and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Expired => "expired",
            Self::Lifetime => "lifetime",
            Self::Unavailable => "unavailable",
            Self::Drain => "drain",
            Self::Evicted => "evicted",
            Self::Gap => "gap",
        }
    }

    /// Whether the client must not come back by itself.
    pub fn is_final(self) -> bool {
        self == Self::Evicted
    }

    /// The close code of a WebSocket.
    pub fn close_code(self) -> u16 {
        match self {
            Self::Slow => 4000,
            Self::Expired => 4001,
            Self::Evicted => 4002,
            Self::Lifetime => 4003,
            Self::Gap => 4004,
            Self::Drain => 1012,
            Self::Unavailable => 1013,
        }
    }

    /// After how many milliseconds the client comes back; `random` is in 0..1. Connections that end for the same cause end at the
    /// same time, so their clients are spread.
    pub(crate) fn retry_ms(self, random: f64) -> u32 {
        let (min, max) = match self {
            Self::Expired | Self::Gap => (500, 2_000),
            Self::Slow | Self::Lifetime | Self::Evicted => (1_000, 3_000),
            Self::Drain => (1_000, 4_000),
            Self::Unavailable => (3_000, 10_000),
        };
        spread(min, max, random)
    }

    /// The last frame of a connection.
    pub(crate) fn frame(self, retry_ms: u32) -> Frame {
        let reason = self.as_str();
        let sse = match self.is_final() {
            true => Bytes::from_static(b"event: evicted\ndata: {}\n\n"),
            false => {
                format!("retry: {retry_ms}\nevent: end\ndata: {{\"reason\":\"{reason}\",\"retryMs\":{retry_ms}}}\n\n")
                    .into()
            }
        };
        Frame::control(
            sse,
            format!("{{\"event\":\"end\",\"reason\":\"{reason}\",\"retryMs\":{retry_ms}}}"),
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A number between two others; `random` is in 0..1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the result is between min and max"
)]
pub(crate) fn spread(min: u32, max: u32, random: f64) -> u32 {
    min + (f64::from(max - min) * random.clamp(0.0, 1.0)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_come_back_at_different_times() {
        for reason in Reason::ALL {
            let (first, middle, last) = (reason.retry_ms(0.0), reason.retry_ms(0.5), reason.retry_ms(1.0));
            assert!(
                first >= 500 && first < middle && middle < last && last <= 10_000,
                "{reason}"
            );
        }
        assert_eq!(spread(3_000, 6_000, 0.5), 4_500);
        assert_eq!(spread(3_000, 6_000, 7.0), 6_000);
    }

    #[test]
    fn the_last_frame_says_why_and_when_to_come_back() {
        let frame = Reason::Slow.frame(1_234);
        let expected = "retry: 1234\nevent: end\ndata: {\"reason\":\"slow\",\"retryMs\":1234}\n\n";
        assert_eq!(frame.sse(), expected.as_bytes());
        assert_eq!(frame.ws().as_str(), r#"{"event":"end","reason":"slow","retryMs":1234}"#);
        assert_eq!(
            Reason::Evicted.frame(1).sse(),
            "event: evicted\ndata: {}\n\n".as_bytes()
        );
    }

    #[test]
    fn each_reason_has_its_close_code() {
        let codes: std::collections::HashSet<_> = Reason::ALL.map(Reason::close_code).into();
        assert_eq!(codes.len(), Reason::ALL.len());
    }
}
