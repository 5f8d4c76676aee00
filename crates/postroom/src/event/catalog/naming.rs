//! How events are named: a rule for each module, checked when the catalogue is.

use serde::Serialize;

/// Past tenses that do not end in `ed`.
const IRREGULAR: [&str; 24] = [
    "Begun", "Bought", "Built", "Chosen", "Done", "Found", "Frozen", "Given", "Held", "Hidden", "Kept", "Left", "Lost",
    "Made", "Met", "Paid", "Put", "Read", "Sent", "Set", "Sold", "Taken", "Won", "Written",
];

/// Words that end in `ed` and are no verbs.
const NO_VERB: [&str; 9] = ["Bed", "Breed", "Embed", "Feed", "Need", "Red", "Seed", "Shed", "Speed"];

/// A rule for the names of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Naming {
    /// `{company}.{domain}.{action}.v{version}` in lower case, as in `shop.order.paid.v1`.
    #[default]
    Dotted,
    /// Words in capitals, one of them a verb in the past tense, as in `PaymentSucceeded`.
    PastTense,
}

impl Naming {
    /// Checks a name; says what is wrong with it and how a right one looks.
    pub fn check(self, name: &str) -> Result<(), String> {
        let (is_right, rule) = match self {
            Self::Dotted => (
                is_dotted(name),
                "name it {company}.{domain}.{action}.v{version} in lower case, as in shop.order.paid.v1",
            ),
            Self::PastTense => (
                is_past_tense(name),
                "name it in PascalCase with a verb in the past tense, as in PaymentSucceeded",
            ),
        };
        if is_right {
            Ok(())
        } else {
            Err(format!("{name:?} breaks the module's rule for names: {rule}"))
        }
    }
}

fn is_dotted(name: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_')
    };
    let Some((words, version)) = name.rsplit_once(".v") else {
        return false;
    };
    let is_version = version.parse::<u32>().is_ok_and(|number| number > 0) && !version.starts_with(['0', '+']);
    is_version && words.split('.').count() == 3 && words.split('.').all(is_word)
}

fn is_past_tense(name: &str) -> bool {
    let is_pascal =
        name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(|c| c.is_ascii_alphanumeric());
    let is_verb = |word: &str| IRREGULAR.contains(&word) || (word.ends_with("ed") && !NO_VERB.contains(&word));
    is_pascal && words(name).skip(1).any(is_verb) // something has happened to something: the verb is never first
}

/// `PaymentFailedFinal` → `Payment`, `Failed`, `Final`.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let starts = name
        .char_indices()
        .filter(|(_, c)| c.is_ascii_uppercase())
        .map(|(at, _)| at);
    let ends = starts.clone().skip(1).chain([name.len()]);
    starts.zip(ends).filter_map(|(start, end)| name.get(start..end))
}

#[cfg(test)]
mod tests {
    use super::Naming;

    #[test]
    fn names_follow_their_rule() {
        let check = |naming: Naming, right: &[&str], wrong: &[&str]| {
            for name in right {
                assert_eq!(naming.check(name), Ok(()), "{name}");
            }
            for name in wrong {
                assert!(naming.check(name).is_err(), "{name}");
            }
        };
        check(
            Naming::Dotted,
            &["shop.order.paid.v1", "loopers.like.created.v12"],
            &[
                "shop.order.paid",
                "shop.paid.v1",
                "shop.order.paid.v0",
                "Shop.order.paid.v1",
                "a.b.c.d.v1",
                "",
            ],
        );
        check(
            Naming::PastTense,
            &[
                "PaymentSucceeded",
                "PaymentFailedFinal",
                "MemberJoinedViaWebJoin",
                "LedgerPosted",
                "InvoiceSent",
            ],
            &[
                "PaymentSuccess",
                "PaymentFeed",
                "paymentSucceeded",
                "Payment_Succeeded",
                "Succeeded",
                "PaymentSucceeded.v1",
                "",
            ],
        );
    }
}
