//! The plans, shared by billing and licensing.

use crate::refusal::Refusal;

/// A plan, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Plan {
    /// Free for every guild.
    Free,
    /// For one guild's moderators.
    Pro,
    /// For guilds that earn money.
    Business,
}

impl Plan {
    /// All plans.
    pub(crate) const ALL: [Self; 3] = [Self::Free, Self::Pro, Self::Business];

    /// The code of the plan in events and requests.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Pro => "pro",
            Self::Business => "business",
        }
    }

    /// The plan with this code.
    pub(crate) fn of(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plan| plan.code() == code)
    }

    /// The plan with this code. Returns an error for unknown and free plans.
    pub(crate) fn paid(code: &str) -> Result<Self, Refusal> {
        Self::of(code).filter(|plan| *plan != Self::Free).ok_or_else(|| {
            Refusal::invalid(
                "unknown_plan",
                format!("there is no paid plan {code:?}; use pro or business"),
            )
        })
    }

    /// The price of one period, in won.
    pub(crate) fn price(self) -> i64 {
        match self {
            Self::Free => 0,
            Self::Pro => 9_900,
            Self::Business => 29_900,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_comes_back_from_its_code_and_free_is_not_sold() {
        for plan in Plan::ALL {
            assert_eq!(Plan::of(plan.code()), Some(plan));
        }
        assert_eq!(Plan::paid("pro"), Ok(Plan::Pro));
        for code in ["free", "gold", "", "PRO"] {
            assert_eq!(Plan::paid(code).unwrap_err().code, "unknown_plan", "{code:?}");
        }
    }
}
