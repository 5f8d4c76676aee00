//! The shop's rules: products, orders, payments, and the facts that follow from them. No database, no JSON, no event type, no
//! topic.

use std::collections::{BTreeMap, BTreeSet};

const NAME_CHARS_MAX: usize = 100;
/// In minor units of the currency. The largest possible order at this price still fits into 64 bits.
const PRICE_MAX: i64 = 1_000_000_000_000;
const STOCK_MAX: i64 = 1_000_000_000;
const LINES_MAX: usize = 100;
const QUANTITY_MAX: i64 = 1_000;

/// A product for sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// The product number.
    pub product_id: i64,
    /// The display name.
    pub name: String,
    /// In minor units of the currency.
    pub price: i64,
    /// The number of units in stock.
    pub stock: i64,
}

/// One product of an order and its quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The ordered product.
    pub(crate) product_id: i64,
    /// The price of one unit at the time of the order, in minor units.
    pub(crate) price: i64,
    /// The ordered quantity.
    pub(crate) quantity: i64,
}

/// An order, paid or not. The payment takes the products from the stock; placing the order does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// The order number.
    pub(crate) order_id: i64,
    /// The user who placed the order.
    pub(crate) user_id: i64,
    /// The payment; `None` until the order is paid.
    pub(crate) payment_id: Option<i64>,
    /// The ordered products. Each product appears once.
    pub(crate) lines: Vec<Line>,
}

/// A domain fact: something that happened in the shop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// An order was paid.
    OrderPaid {
        order_id: i64,
        payment_id: i64,
        amount: i64,
    },
    /// A user liked a product.
    LikeCreated { user_id: i64, product_id: i64 },
    /// A user removed a like.
    LikeCanceled { user_id: i64, product_id: i64 },
    /// A user viewed a product.
    ProductViewed { product_id: i64, user_id: i64 },
    /// The last unit was sold.
    StockDepleted { product_id: i64 },
}

/// The reason why the shop rejects a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A value is out of its limits.
    Invalid(String),
    /// There is no such product.
    UnknownProduct(i64),
    /// There is no such order.
    UnknownOrder(i64),
    /// The order was paid before.
    AlreadyPaid(i64),
    /// The payment amount differs from the amount due.
    AmountMismatch { due: i64, offered: i64 },
    /// The stock is smaller than the ordered quantity.
    OutOfStock { product_id: i64, left: i64 },
}

impl Product {
    /// Creates a product. Returns an error when a value is out of its limits.
    pub(crate) fn new(product_id: i64, name: &str, price: i64, stock: i64) -> Result<Self, Refusal> {
        if name.trim().is_empty() || name.chars().count() > NAME_CHARS_MAX || name.contains('\0') {
            let says = format!("name must have 1 to {NAME_CHARS_MAX} characters");
            return Err(Refusal::Invalid(says));
        }
        within("price", price, 0..=PRICE_MAX)?;
        within("stock", stock, 0..=STOCK_MAX)?;
        Ok(Self {
            product_id,
            name: name.to_owned(),
            price,
            stock,
        })
    }
}

impl Order {
    /// Creates an order at the current prices of `products`. Returns an error when a value is out of its limits.
    pub(crate) fn new(
        order_id: i64,
        user_id: i64,
        wanted: &[(i64, i64)],
        products: &[Product],
    ) -> Result<Self, Refusal> {
        check_user(user_id)?;
        check_lines(wanted)?;
        let mut known = BTreeSet::new();
        let mut lines = Vec::with_capacity(wanted.len());
        for &(product_id, quantity) in wanted {
            within("quantity", quantity, 1..=QUANTITY_MAX)?;
            if !known.insert(product_id) {
                let says = format!("lines contain product {product_id} twice; send it once with the total quantity");
                return Err(Refusal::Invalid(says));
            }
            let product = products.iter().find(|product| product.product_id == product_id);
            lines.push(Line {
                product_id,
                price: product.ok_or(Refusal::UnknownProduct(product_id))?.price,
                quantity,
            });
        }
        Ok(Self {
            order_id,
            user_id,
            payment_id: None,
            lines,
        })
    }

    /// The amount due, in minor units.
    pub(crate) fn amount(&self) -> i64 {
        self.lines.iter().map(|line| line.price * line.quantity).sum()
    }

    /// Pays the order, takes its products from `shelf`, and returns the facts. After an error, the order and `shelf` may be
    /// partly changed: the caller must discard both.
    pub(crate) fn pay(
        &mut self,
        payment_id: i64,
        amount: i64,
        shelf: &mut BTreeMap<i64, Product>,
    ) -> Result<Vec<Fact>, Refusal> {
        let (order_id, due) = (self.order_id, self.amount());
        if self.payment_id.is_some() {
            return Err(Refusal::AlreadyPaid(order_id));
        }
        if amount != due {
            return Err(Refusal::AmountMismatch { due, offered: amount });
        }
        let mut facts = vec![Fact::OrderPaid {
            order_id,
            payment_id,
            amount,
        }];
        for &Line {
            product_id, quantity, ..
        } in &self.lines
        {
            let product = shelf.get_mut(&product_id).ok_or(Refusal::UnknownProduct(product_id))?;
            if product.stock < quantity {
                let left = product.stock;
                return Err(Refusal::OutOfStock { product_id, left });
            }
            product.stock -= quantity;
            if product.stock == 0 {
                facts.push(Fact::StockDepleted { product_id });
            }
        }
        self.payment_id = Some(payment_id);
        Ok(facts)
    }
}

/// Checks that the value can be a user number.
pub(crate) fn check_user(user_id: i64) -> Result<(), Refusal> {
    within("userId", user_id, 1..=i64::MAX)
}

/// Checks the number of order lines.
pub(crate) fn check_lines(wanted: &[(i64, i64)]) -> Result<(), Refusal> {
    if wanted.is_empty() || wanted.len() > LINES_MAX {
        return Err(Refusal::Invalid(format!("lines must have 1 to {LINES_MAX} entries")));
    }
    Ok(())
}

fn within(field: &str, value: i64, bounds: std::ops::RangeInclusive<i64>) -> Result<(), Refusal> {
    if bounds.contains(&value) {
        return Ok(());
    }
    let (low, high) = bounds.into_inner();
    Err(Refusal::Invalid(format!("{field} is {value}; give {low} to {high}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(product_id: i64, price: i64, stock: i64) -> Product {
        Product::new(product_id, "lamp", price, stock).unwrap()
    }

    fn shelf(products: &[Product]) -> BTreeMap<i64, Product> {
        products.iter().map(|one| (one.product_id, one.clone())).collect()
    }

    #[test]
    fn a_product_has_limits() {
        let long = "x".repeat(NAME_CHARS_MAX + 1);
        for (name, price, stock) in [
            ("", 1, 1),
            (" ", 1, 1),
            ("a\0b", 1, 1),
            (&*long, 1, 1),
            ("lamp", -1, 1),
            ("lamp", PRICE_MAX + 1, 1),
            ("lamp", 1, -1),
            ("lamp", 1, STOCK_MAX + 1),
        ] {
            let made = Product::new(1, name, price, stock);
            assert!(matches!(made, Err(Refusal::Invalid(_))), "{name:?} {price} {stock}");
        }
        assert!(Product::new(1, "전등", PRICE_MAX, STOCK_MAX).is_ok());
    }

    #[test]
    fn an_order_has_limits() {
        let products = [product(1, 100, 5), product(2, 30, 5)];
        let check = |user_id: i64, wanted: &[(i64, i64)], refusal: Option<&str>| {
            let made = Order::new(9, user_id, wanted, &products);
            match (made, refusal) {
                (Ok(order), None) => assert_eq!(order.amount(), 230),
                (Err(Refusal::Invalid(says)), Some(words)) => assert!(says.contains(words), "{says}"),
                (Err(Refusal::UnknownProduct(3)), Some("unknown")) => {}
                (made, _) => panic!("{wanted:?} by {user_id}: {made:?}"),
            }
        };
        check(7, &[(1, 2), (2, 1)], None);
        check(0, &[(1, 2)], Some("userId is 0"));
        check(7, &[], Some("lines must have 1 to 100 entries"));
        check(7, &[(1, 1), (1, 1)], Some("lines contain product 1 twice"));
        check(7, &[(1, 0)], Some("quantity is 0"));
        check(7, &[(1, QUANTITY_MAX + 1)], Some("quantity is 1001"));
        check(7, &[(3, 1)], Some("unknown"));
    }

    #[test]
    fn a_payment_takes_the_stock_and_says_what_is_sold_out() {
        let products = [product(1, 100, 2), product(2, 30, 5)];
        let mut order = Order::new(9, 7, &[(1, 2), (2, 1)], &products).unwrap();
        let mut shelf = shelf(&products);
        let facts = order.pay(4, 230, &mut shelf).unwrap();
        let paid = Fact::OrderPaid {
            order_id: 9,
            payment_id: 4,
            amount: 230,
        };
        assert_eq!(facts, [paid, Fact::StockDepleted { product_id: 1 }]);
        let left: Vec<i64> = shelf.values().map(|product| product.stock).collect();
        assert_eq!((left, order.payment_id), (vec![0, 4], Some(4)));
        let again = order.pay(5, 230, &mut shelf);
        assert_eq!(again, Err(Refusal::AlreadyPaid(9)));
    }

    #[test]
    fn a_payment_is_refused_for_a_reason() {
        let products = [product(1, 100, 1)];
        let order = Order::new(9, 7, &[(1, 2)], &products).unwrap();
        let check = |amount: i64, refusal: Refusal| {
            assert_eq!(order.clone().pay(4, amount, &mut shelf(&products)), Err(refusal));
        };
        check(199, Refusal::AmountMismatch { due: 200, offered: 199 });
        check(200, Refusal::OutOfStock { product_id: 1, left: 1 });
        let gone = order.clone().pay(4, 200, &mut BTreeMap::new());
        assert_eq!(gone, Err(Refusal::UnknownProduct(1)));
    }

    #[test]
    fn the_dearest_order_can_be_paid() {
        let products: Vec<Product> = (1..=100).map(|id| product(id, PRICE_MAX, QUANTITY_MAX)).collect();
        let wanted: Vec<(i64, i64)> = (1..=100).map(|id| (id, QUANTITY_MAX)).collect();
        let order = Order::new(1, 1, &wanted, &products).unwrap();
        assert_eq!(order.amount(), 100_000_000_000_000_000);
    }
}
