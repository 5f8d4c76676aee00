//! The rules of a restore.

use crate::refusal::Refusal;

/// The status of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// In progress.
    Running,
    /// Finished successfully.
    Completed,
    /// Finished with an error.
    Failed,
}

impl Status {
    /// The name in the database and in responses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// Parses [`Status::name`].
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "running" => Self::Running,
            "completed" => Self::Completed,
            _ => Self::Failed,
        }
    }

    /// Ends a restore. A restore can end only once.
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
