//! What may happen to a restore.

use crate::refusal::Refusal;

/// How a restore stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Under way.
    Running,
    /// Done.
    Completed,
    /// Not done.
    Failed,
}

impl Status {
    /// As it is kept and shown.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// Reads back [`Status::name`].
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "running" => Self::Running,
            "completed" => Self::Completed,
            _ => Self::Failed,
        }
    }

    /// A restore ends once.
    pub(crate) fn end(self, to: Self) -> Result<Self, Refusal> {
        match self {
            Self::Running => Ok(to),
            Self::Completed | Self::Failed => Err(Refusal::conflict(
                "restore_over",
                format!("the restore has {}", self.name()),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restore_ends_once() {
        assert_eq!(Status::Running.end(Status::Failed), Ok(Status::Failed));
        assert_eq!(Status::Failed.end(Status::Completed).unwrap_err().code, "restore_over");
        assert_eq!(Status::of(Status::Completed.name()), Status::Completed);
    }
}
