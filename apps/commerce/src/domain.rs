//! The shop's rules: what a product and an order are, when an order may be paid, and what has happened then. No database, no
//! JSON, no event type, no topic.

use std::collections::{BTreeMap, BTreeSet};

const NAME_CHARS_MAX: usize = 100;
/// In minor units of the currency; a full order of the dearest things still fits into 64 bits.
const PRICE_MAX: i64 = 1_000_000_000_000;
const STOCK_MAX: i64 = 1_000_000_000;
const LINES_MAX: usize = 100;
const QUANTITY_MAX: i64 = 1_000;

/// Something to sell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// Its number.
    pub product_id: i64,
    /// What it is called.
    pub name: String,
    /// In minor units of the currency.
    pub price: i64,
    /// How many there are.
    pub stock: i64,
}

/// One product of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Which.
    pub(crate) product_id: i64,
    /// Its price when it was ordered.
    pub(crate) price: i64,
    /// How many.
    pub(crate) quantity: i64,
}

/// What somebody wants to buy, or has bought. Its stock is taken when it is paid, not before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Its number.
    pub(crate) order_id: i64,
    /// Who ordered.
    pub(crate) user_id: i64,
    /// The payment, once there is one.
    pub(crate) payment_id: Option<i64>,
    /// What, each product once.
    pub(crate) lines: Vec<Line>,
}

/// Something that has happened in the shop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// An order was paid.
    OrderPaid {
        order_id: i64,
        payment_id: i64,
        amount: i64,
    },
    /// Somebody likes a product.
    LikeCreated { user_id: i64, product_id: i64 },
    /// Somebody does not like it any more.
    LikeCanceled { user_id: i64, product_id: i64 },
    /// Somebody looked at a product.
    ProductViewed { product_id: i64, user_id: i64 },
    /// The last one was sold.
    StockDepleted { product_id: i64 },
}

/// Why the shop does not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A value is out of bounds.
    Invalid(String),
    /// There is no such product.
    UnknownProduct(i64),
    /// There is no such order.
    UnknownOrder(i64),
    /// It was paid before.
    AlreadyPaid(i64),
    /// Somebody offers another amount than is due.
    AmountMismatch { due: i64, offered: i64 },
    /// There are fewer than were ordered.
    OutOfStock { product_id: i64, left: i64 },
}

impl Product {
    /// A product, or what is wrong with it.
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
    /// An order of these quantities at today's prices, or what is wrong with it.
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
                let says = format!("product {product_id} is there twice; add up its quantities");
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

    /// What is due.
    pub(crate) fn amount(&self) -> i64 {
        self.lines.iter().map(|line| line.price * line.quantity).sum()
    }

    /// Pays it and takes its products from the shelf; answers what has happened. After a refusal neither the order nor the
    /// shelf is of any use: nothing of them is kept.
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

/// Whether this can be somebody's number.
pub(crate) fn check_user(user_id: i64) -> Result<(), Refusal> {
    within("userId", user_id, 1..=i64::MAX)
}

/// Whether an order can have so many lines.
pub(crate) fn check_lines(wanted: &[(i64, i64)]) -> Result<(), Refusal> {
    if wanted.is_empty() || wanted.len() > LINES_MAX {
        return Err(Refusal::Invalid(format!("lines must be 1 to {LINES_MAX}")));
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
        check(7, &[], Some("lines must be 1 to 100"));
        check(7, &[(1, 1), (1, 1)], Some("product 1 is there twice"));
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
