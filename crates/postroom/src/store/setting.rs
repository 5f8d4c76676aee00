//! Settings of a database that a store checks: those that can cost committed events, and those that stop Postroom's own work.
//!
//! Each store declares its own checks ([`Inspect::settings`](crate::Inspect::settings)).
//! [`operate::settings`](crate::operate::settings) reads the values and compares them.

/// A setting of the database, and the values that are good for Postroom.
#[derive(Clone, Copy, Debug)]
pub struct SettingCheck {
    /// The name in the documentation of the database.
    pub name: &'static str,
    /// A statement that answers the value: one row with one text.
    pub sql: &'static str,
    /// The good values.
    pub wanted: Wanted,
    /// The consequence of any other value, and the correction.
    pub advice: &'static str,
}

/// The good values of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// One of these texts, as the database spells them.
    OneOf(&'static [&'static str]),
    /// A whole number, this or a larger one.
    AtLeast(u64),
}

impl SettingCheck {
    /// The number of connections that a server allows. `sql` answers how many of them are free for users who are no
    /// administrators.
    pub const fn max_connections(sql: &'static str) -> Self {
        Self {
            name: "max_connections",
            sql,
            wanted: Wanted::AtLeast(80), // a second process and your own service need some too
            advice: "one process of Postroom opens up to 35 connections, and your service its own; set max_connections = 100 \
                     or more",
        }
    }

    /// The advice, unless this value is good.
    pub fn advice_on(&self, value: &str) -> Option<&'static str> {
        (!self.wanted.accepts(value)).then_some(self.advice)
    }
}

impl Wanted {
    fn accepts(self, value: &str) -> bool {
        match self {
            Self::OneOf(values) => values.contains(&value),
            Self::AtLeast(least) => value.parse::<u64>().is_ok_and(|value| value >= least),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_good_if_it_is_listed_or_large_enough() {
        let check = |wanted: Wanted, value: &str, is_good: bool| {
            let setting = SettingCheck {
                name: "a",
                sql: "select 1",
                wanted,
                advice: "change it",
            };
            let advice = (!is_good).then_some("change it");
            assert_eq!(setting.advice_on(value), advice, "{wanted:?} {value}");
        };
        let listed = Wanted::OneOf(&["on", "off"]);
        check(listed, "on", true);
        check(listed, "ON", false);
        let least = Wanted::AtLeast(60);
        check(least, "60", true);
        check(least, "59", false);
        check(least, "many", false);
    }
}
