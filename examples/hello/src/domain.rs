//! The shop's rules: orders, and the decisions of the courier. No database, no JSON, no event type.

use std::time::Duration;

/// The courier accepts glass only after this delay, so a demo shows retries that succeed.
const GLASS_WAITS: Duration = Duration::from_secs(1);
const GLASS: &str = "glass";
/// The courier rejects every order of this customer, so a demo shows a dead letter.
const NOBODY: &str = "nobody";

/// A valid order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The order id.
    pub order_id: String,
    /// The customer who placed the order.
    pub customer: String,
    /// The ordered item.
    pub item: String,
    /// The ordered quantity.
    pub quantity: u32,
}

impl Order {
    /// Creates an order. Returns a message when a value is out of its limits.
    pub fn new(order_id: String, customer: &str, item: &str, quantity: u32) -> Result<Self, String> {
        for (field, text) in [("customer", customer), ("item", item)] {
            if text.trim().is_empty() || text.chars().count() > 100 || text.contains('\0') {
                return Err(format!("{field} must have 1 to 100 characters"));
            }
        }
        if !(1..=1000).contains(&quantity) {
            return Err(format!("quantity is {quantity}; order 1 to 1000"));
        }
        Ok(Self {
            order_id,
            customer: customer.to_owned(),
            item: item.to_owned(),
            quantity,
        })
    }

    /// The `number`-th generated order: every seventh is for glass, every thirtieth for the customer "nobody".
    pub fn of_the_day(number: u64, order_id: String) -> Self {
        let pick = |names: &[&'static str]| {
            let at = usize::try_from(number).unwrap_or_default() % names.len().max(1);
            names.get(at).copied().unwrap_or_default()
        };
        let is_for_nobody = number % 30 == 9;
        let customer = if is_for_nobody {
            NOBODY
        } else {
            pick(&["ada", "grace", "edsger", "barbara", "tony"])
        };
        let item = pick(&["lamp", "chair", "book", GLASS, "teapot", "scarf", "clock"]);
        Self {
            order_id,
            customer: customer.to_owned(),
            item: item.to_owned(),
            quantity: 1 + u32::try_from(number % 4).unwrap_or_default(),
        }
    }

    /// The text on its receipt.
    pub fn receipt(&self) -> String {
        format!("{} x {} for {}", self.quantity, self.item, self.customer)
    }

    /// Offers the parcel to the courier. Returns the courier's reason for a rejection; glass is accepted after a delay.
    pub fn offer_to_courier(&self, waited: Duration) -> Result<(), &'static str> {
        if self.customer == NOBODY {
            Err("the courier does not know where nobody lives")
        } else if self.item == GLASS && waited < GLASS_WAITS {
            Err("the courier's van for glass has not come yet")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_courier_takes_most_parcels() {
        let check = |customer: &str, item: &str, waited_s: u64, taken: bool| {
            let order = Order::new("1".into(), customer, item, 1).unwrap();
            let answer = order.offer_to_courier(Duration::from_secs(waited_s));
            assert_eq!(answer.is_ok(), taken, "{item} for {customer} after {waited_s} s");
        };
        check("ada", "lamp", 0, true);
        check("ada", "glass", 0, false);
        check("ada", "glass", 1, true);
        check("nobody", "lamp", 1_000, false);
    }

    #[test]
    fn an_order_has_limits() {
        for (customer, item, quantity) in [
            ("", "lamp", 1),
            ("ada", " ", 1),
            ("ada", "lamp", 0),
            ("ada", "lamp", 1001),
        ] {
            assert!(
                Order::new("1".into(), customer, item, quantity).is_err(),
                "{quantity} {item:?} for {customer:?}"
            );
        }
    }

    #[test]
    fn a_day_has_all_kinds_of_orders() {
        let day: Vec<Order> = (0..60)
            .map(|number| Order::of_the_day(number, number.to_string()))
            .collect();
        let count = |is: fn(&Order) -> bool| day.iter().filter(|order| is(order)).count();
        assert_eq!(count(|order| order.customer == NOBODY), 2);
        assert!((6..=10).contains(&count(|order| order.item == GLASS)));
    }
}
