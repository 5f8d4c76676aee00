//! A transaction: money leaves one account and reaches another. Its two legs sum to zero, because every constructor creates
//! both legs from one amount.

use uuid::Uuid;

use super::{Account, AccountId, Currency, Money, Refusal};

/// The kind of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Money from outside the ledger.
    Deposit,
    /// Money to the outside.
    Withdrawal,
    /// Money from one customer account to another.
    Transfer,
    /// The reversal of a transaction.
    Reversal,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Deposit, Self::Withdrawal, Self::Transfer, Self::Reversal];

    /// The name in text form.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deposit => "deposit",
            Self::Withdrawal => "withdrawal",
            Self::Transfer => "transfer",
            Self::Reversal => "reversal",
        }
    }

    /// Parses [`Kind::name`].
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// One side of a transaction: the change of one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The changed account.
    pub account_id: AccountId,
    /// The change in minor units. Negative when money leaves the account.
    pub amount: i64,
}

/// A movement of money between two accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The transaction id.
    pub transaction_id: Uuid,
    /// The kind of the transaction.
    pub kind: Kind,
    /// The currency of both legs.
    pub currency: Currency,
    /// The source leg and the target leg.
    pub legs: [Leg; 2],
    /// The transaction that this one reverses.
    pub reverses: Option<Uuid>,
}

impl Transaction {
    /// A deposit: money from outside into an account.
    pub fn deposit(to: AccountId, money: Money) -> Self {
        Self::new(Kind::Deposit, AccountId::clearing(money.currency()), to, money)
    }

    /// A withdrawal: money from an account to the outside.
    pub fn withdrawal(from: AccountId, money: Money) -> Self {
        Self::new(Kind::Withdrawal, from, AccountId::clearing(money.currency()), money)
    }

    /// A transfer from one account to another.
    pub fn transfer(from: AccountId, to: AccountId, money: Money) -> Result<Self, Refusal> {
        if from == to {
            return Err(Refusal::SameAccount);
        }
        Ok(Self::new(Kind::Transfer, from, to, money))
    }

    /// The transaction that reverses this one.
    pub fn reversal(&self) -> Result<Self, Refusal> {
        if self.kind == Kind::Reversal {
            return Err(Refusal::NotReversible);
        }
        let [from, to] = &self.legs;
        let money = Money::posted(to.amount, self.currency)?;
        let reversal = Self::new(Kind::Reversal, to.account_id.clone(), from.account_id.clone(), money);
        Ok(Self {
            reverses: Some(self.transaction_id),
            ..reversal
        })
    }

    fn new(kind: Kind, from: AccountId, to: AccountId, money: Money) -> Self {
        let leg = |account_id, amount| Leg { account_id, amount };
        Self {
            transaction_id: Uuid::now_v7(),
            kind,
            currency: money.currency(),
            legs: [leg(from, -money.minor()), leg(to, money.minor())],
            reverses: None,
        }
    }

    /// The legs in locking order, which is the same for all transactions. The clearing account is shared by most
    /// transactions, so it comes last and is locked for the shortest time.
    pub fn in_lock_order(&self) -> [&Leg; 2] {
        let [first, second] = &self.legs;
        let place = |leg: &Leg| (leg.account_id.is_clearing(), leg.account_id.clone());
        if place(first) <= place(second) {
            [first, second]
        } else {
            [second, first]
        }
    }

    /// The account on the other side of the transaction.
    pub fn counterpart(&self, account_id: &AccountId) -> Option<&AccountId> {
        let mut others = self.legs.iter().filter(|leg| leg.account_id != *account_id);
        others.next().map(|leg| &leg.account_id)
    }
}

/// A journal entry: a posted leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The account after this leg. Its version is the sequence number of the entry.
    pub account: Account,
    /// The change in minor units. Negative when money left the account.
    pub amount: i64,
}

/// A posted transaction with its journal entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// The transaction.
    pub transaction: Transaction,
    /// One entry per leg.
    pub entries: Vec<Entry>,
    /// The time of the posting, in milliseconds since 1970.
    pub posted_at_ms: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::AMOUNT_MAX;

    fn money(minor: i64) -> Money {
        Money::new(minor, Currency::parse("KRW").unwrap()).unwrap()
    }

    fn sum(transaction: &Transaction) -> i64 {
        transaction.legs.iter().map(|leg| leg.amount).sum()
    }

    #[test]
    fn legs_sum_to_zero() {
        let (ada, bob) = (AccountId::random(), AccountId::random());
        let transfer = Transaction::transfer(ada.clone(), bob.clone(), money(AMOUNT_MAX)).unwrap();
        let all = [
            Transaction::deposit(ada.clone(), money(1)),
            Transaction::withdrawal(bob.clone(), money(AMOUNT_MAX)),
            transfer.reversal().unwrap(),
            transfer.clone(),
        ];
        assert!(all.iter().all(|transaction| sum(transaction) == 0));
        assert_eq!(
            Transaction::transfer(ada.clone(), ada, money(1)),
            Err(Refusal::SameAccount)
        );
    }

    #[test]
    fn a_reversal_goes_the_other_way_once() {
        let deposit = Transaction::deposit(AccountId::random(), money(5));
        let reversal = deposit.reversal().unwrap();
        assert_eq!(reversal.reverses, Some(deposit.transaction_id));
        let [from, to] = &reversal.legs;
        assert_eq!((&from.account_id, from.amount), (&deposit.legs[1].account_id, -5));
        assert_eq!((&to.account_id, to.amount), (&deposit.legs[0].account_id, 5));
        assert_eq!(reversal.reversal(), Err(Refusal::NotReversible));
    }

    #[test]
    fn accounts_are_locked_in_one_order() {
        let (ada, bob) = (AccountId::random(), AccountId::random());
        let there = Transaction::transfer(ada.clone(), bob.clone(), money(1)).unwrap();
        let back = Transaction::transfer(bob, ada.clone(), money(1)).unwrap();
        let order = |transaction: &Transaction| transaction.in_lock_order().map(|leg| leg.account_id.clone());
        assert_eq!(order(&there), order(&back));
        let [first, last] = order(&Transaction::deposit(ada.clone(), money(1)));
        assert!(first == ada && last.is_clearing());
    }
}
