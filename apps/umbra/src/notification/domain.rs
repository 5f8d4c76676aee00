//! What notices say, and whose they are.

/// Where a notice belongs: a thing that leads to another one, and in the end to a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(String);

impl Address {
    /// Whoever owns a guild.
    pub(crate) fn guild(guild_id: &str) -> Self {
        Self(format!("guild:{guild_id}"))
    }

    /// Whoever pays for a subscription.
    pub(crate) fn subscription(subscription_id: &str) -> Self {
        Self(format!("subscription:{subscription_id}"))
    }

    /// Whose guild a licence is for.
    pub(crate) fn license(license_id: &str) -> Self {
        Self(format!("license:{license_id}"))
    }

    /// Whose guild is restored.
    pub(crate) fn restore(restore_job_id: &str) -> Self {
        Self(format!("restore:{restore_job_id}"))
    }

    /// A user.
    pub(crate) fn user(user_id: &str) -> Self {
        Self(format!("user:{user_id}"))
    }

    /// An address as it was kept.
    pub(crate) fn kept(text: String) -> Self {
        Self(text)
    }

    /// As it is kept.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The user, if it is one's.
    pub(crate) fn user_id(&self) -> Option<&str> {
        self.0.strip_prefix("user:")
    }
}

/// A plan's name, as people write it.
pub(crate) fn plan_name(plan_code: &str) -> String {
    let mut letters = plan_code.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// What is said when a subscription ends as the user wished.
pub(crate) fn canceled(at_period_end: bool) -> String {
    match at_period_end {
        true => "Your subscription ends with the period you have paid for".to_owned(),
        false => "Your subscription has ended".to_owned(),
    }
}

/// What is said when a payment fails.
pub(crate) fn payment_failed(retry_count: u32) -> String {
    format!("Payment failed ({retry_count} of 3), we will try again in 24 hours")
}

/// What is said when a payment goes back.
pub(crate) fn refunded(amount: i64) -> String {
    format!("Your payment of {amount} won was returned")
}

/// Why something stands still, for people.
pub(crate) fn reason(code: &str) -> &str {
    match code {
        "bot_kicked" => "the bot was removed from your server",
        "billing_key_deleted" => "the card it was paid with was removed",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_to_a_user_or_on() {
        assert_eq!(Address::user("7").user_id(), Some("7"));
        assert_eq!(
            Address::kept(Address::user("7").as_str().to_owned()),
            Address::user("7")
        );
        for other in [
            Address::guild("7"),
            Address::license("7"),
            Address::restore("7"),
            Address::subscription("7"),
        ] {
            assert_eq!(other.user_id(), None);
        }
    }

    #[test]
    fn notices_are_for_people() {
        assert_eq!(plan_name("pro"), "Pro");
        assert_eq!(plan_name(""), "");
        assert!(reason("bot_kicked").contains("removed"));
        assert_ne!(canceled(true), canceled(false));
    }
}
