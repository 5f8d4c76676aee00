//! How events are named: Pascal case, with a verb in past tense among the words. `PaymentSucceeded`, not `PaymentSuccess`.

/// Past tenses that do not end in -ed.
const IRREGULAR: [&str; 22] = [
    "Begun", "Bought", "Built", "Caught", "Chosen", "Drawn", "Fallen", "Found", "Given", "Grown", "Held", "Kept",
    "Left", "Lost", "Made", "Met", "Paid", "Sent", "Sold", "Taken", "Won", "Written",
];
/// Words that end in -ed and are no past tense.
const NO_VERB: [&str; 9] = ["Bed", "Breed", "Embed", "Feed", "Need", "Red", "Seed", "Shed", "Speed"];

/// Whether a name follows the rule; if not, why.
pub fn check(name: &str) -> Result<(), String> {
    let words = words(name).ok_or_else(|| format!("{name:?} is not in Pascal case: write it like PaymentSucceeded"))?;
    if !words.iter().any(|word| is_past_tense(word)) {
        return Err(format!(
            "{name:?} has no verb in past tense: say what happened, like PaymentSucceeded"
        ));
    }
    Ok(())
}

/// The words of a name in Pascal case; `None` when it is written otherwise.
fn words(name: &str) -> Option<Vec<&str>> {
    let is_begin = |(_, c): &(usize, char)| c.is_ascii_uppercase();
    let mut begins: Vec<usize> = name.char_indices().filter(is_begin).map(|(at, _)| at).collect();
    if begins.first() != Some(&0) || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
        return None;
    }
    begins.push(name.len());
    let pairs = begins.iter().zip(begins.iter().skip(1));
    pairs.map(|(from, to)| name.get(*from..*to)).collect()
}

fn is_past_tense(word: &str) -> bool {
    IRREGULAR.contains(&word) || (word.len() > 3 && word.ends_with("ed") && !NO_VERB.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u_10_every_name_of_the_catalogue_is_in_past_tense() {
        let module = crate::module();
        assert!(module.events.len() >= 30);
        for event in &module.events {
            assert_eq!(check(event.name), Ok(()));
        }
    }

    #[test]
    fn u_10_other_names_are_refused() {
        let check = |name: &str, why: Option<&str>| {
            let said = check(name).err();
            assert_eq!(said.is_some(), why.is_some(), "{name}: {said:?}");
            assert!(said.unwrap_or_default().contains(why.unwrap_or_default()), "{name}");
        };
        check("PaymentSuccess", Some("past tense"));
        check("PaymentFeed", Some("past tense"));
        check("PAYMENTFAILED", Some("past tense"));
        check("paymentFailed", Some("Pascal case"));
        check("payment.failed", Some("Pascal case"));
        check("Payment_Failed", Some("Pascal case"));
        check("", Some("Pascal case"));
        check("InvoicePaid", None);
        check("PaymentFailedFinal", None);
    }
}
