//! The texts of notices, and their addresses.

/// The address of a notice. An address leads to another address, and finally to a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(String);

impl Address {
    /// The owner of a guild.
    pub(crate) fn guild(guild_id: &str) -> Self {
        Self(format!("guild:{guild_id}"))
    }

    /// The paying user of a subscription.
    pub(crate) fn subscription(subscription_id: &str) -> Self {
        Self(format!("subscription:{subscription_id}"))
    }

    /// The owner of the guild of a licence.
    pub(crate) fn license(license_id: &str) -> Self {
        Self(format!("license:{license_id}"))
    }

    /// The owner of the guild of a restore.
    pub(crate) fn restore(restore_job_id: &str) -> Self {
        Self(format!("restore:{restore_job_id}"))
    }

    /// A user.
    pub(crate) fn user(user_id: &str) -> Self {
        Self(format!("user:{user_id}"))
    }

    /// An address from the database.
    pub(crate) fn from_text(text: String) -> Self {
        Self(text)
    }

    /// The address as text, as the database stores it.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The user id, if the address is a user.
    pub(crate) fn user_id(&self) -> Option<&str> {
        self.0.strip_prefix("user:")
    }
}

/// The display name of a plan.
pub(crate) fn plan_name(plan_code: &str) -> String {
    let mut letters = plan_code.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// The notice of a cancellation by the user.
pub(crate) fn canceled(at_period_end: bool) -> String {
    match at_period_end {
        true => "Your subscription ends with the period you have paid for".to_owned(),
        false => "Your subscription has ended".to_owned(),
    }
}

/// The notice of a failed payment.
pub(crate) fn payment_failed(retry_count: u32) -> String {
    format!("Payment failed ({retry_count} of 3), we will try again in 24 hours")
}

/// The notice of a refund.
pub(crate) fn refunded(amount: i64) -> String {
    format!("Your payment of {amount} won was returned")
}

/// The reason of a suspension as text for people.
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
            Address::from_text(Address::user("7").as_str().to_owned()),
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
