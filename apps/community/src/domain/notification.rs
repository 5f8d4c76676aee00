//! Notifications: their kinds and their messages.

/// Characters of a quoted text in a message.
const QUOTE_MAX: usize = 60;

/// The kind of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A member follows the reader.
    Follow,
    /// A member likes a post of the reader.
    PostLike,
    /// A member commented on a post of the reader.
    PostComment,
    /// A vote of the reader closed: one that the reader made or voted in.
    VoteClosed,
}

impl Kind {
    /// Its name for clients and in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Follow => "FOLLOW",
            Self::PostLike => "POST_LIKE",
            Self::PostComment => "POST_COMMENT",
            Self::VoteClosed => "VOTE_CLOSED",
        }
    }
}

/// The facts that the message of a notification tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Telling<'a> {
    Follow {
        who: &'a str,
    },
    PostLike {
        who: &'a str,
        title: &'a str,
    },
    PostComment {
        who: &'a str,
        title: &'a str,
        comment: &'a str,
    },
    VoteClosed {
        question: &'a str,
    },
}

impl Telling<'_> {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Follow { .. } => Kind::Follow,
            Self::PostLike { .. } => Kind::PostLike,
            Self::PostComment { .. } => Kind::PostComment,
            Self::VoteClosed { .. } => Kind::VoteClosed,
        }
    }

    /// The message for people. Clients that write their own use the type and the ids.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Follow { who } => format!("{who} follows you"),
            Self::PostLike { who, title } => format!("{who} likes “{}”", quote(title)),
            Self::PostComment { who, title, comment } => {
                format!("{who} commented on “{}”: {}", quote(title), quote(comment))
            }
            Self::VoteClosed { question } => format!("The vote “{}” closed", quote(question)),
        }
    }
}

/// The beginning of a text, in one line.
fn quote(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(QUOTE_MAX) {
        None => line,
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_member_and_quotes_in_one_line() {
        let check = |telling: Telling<'_>, kind: &str, expected: &str| {
            assert_eq!((telling.kind().name(), telling.message().as_str()), (kind, expected));
        };
        check(Telling::Follow { who: "ada" }, "FOLLOW", "ada follows you");
        let liked = Telling::PostLike {
            who: "ada",
            title: "오늘의\n김밥",
        };
        check(liked, "POST_LIKE", "ada likes “오늘의 김밥”");
        let long = "맛".repeat(61);
        let commented = Telling::PostComment {
            who: "ada",
            title: "t",
            comment: &long,
        };
        check(
            commented,
            "POST_COMMENT",
            &format!("ada commented on “t”: {}…", "맛".repeat(60)),
        );
        let closed = Telling::VoteClosed { question: "Lunch?" };
        check(closed, "VOTE_CLOSED", "The vote “Lunch?” closed");
    }
}
