//! The commands of the ledger and their execution.

use postroom::Tx;
use serde::Serialize;
use uuid::Uuid;

use crate::domain::{Account, AccountId, Currency, Money, Refusal, Transaction};
use crate::posting::{self, Failure, Locking};
use crate::tables::journal::{self, Record};

/// A request to change the ledger. Its JSON text identifies the request that an idempotency key belongs to.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub(crate) enum Command {
    Open {
        owner: String,
        name: String,
        currency: String,
    },
    Deposit {
        account_id: String,
        amount: i64,
        currency: String,
    },
    Withdraw {
        account_id: String,
        amount: i64,
        currency: String,
    },
    Transfer {
        from: String,
        to: String,
        amount: i64,
        currency: String,
    },
    Reverse {
        transaction_id: String,
    },
}

/// An account in a response.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Shown {
    account_id: String,
    owner: String,
    name: String,
    currency: &'static str,
    balance: i128,
    version: i64,
}

impl From<Account> for Shown {
    fn from(account: Account) -> Self {
        Self {
            account_id: account.account_id.to_string(),
            owner: account.owner,
            name: account.name,
            currency: account.currency.code(),
            balance: account.balance,
            version: account.version,
        }
    }
}

/// The result of a command.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Outcome {
    Opened(Shown),
    Posted(Record),
}

impl Command {
    /// Executes the command. After an error the caller rolls back.
    pub(crate) async fn execute(&self, tx: &Tx, locking: Locking) -> Result<Outcome, Failure> {
        let transaction = match self {
            Self::Open { owner, name, currency } => {
                let account = Account::open(owner, name, Currency::parse(currency)?)?;
                posting::open(tx, &account).await?;
                return Ok(Outcome::Opened(account.into()));
            }
            Self::Deposit {
                account_id,
                amount,
                currency,
            } => Transaction::deposit(AccountId::customer(account_id)?, money(*amount, currency)?),
            Self::Withdraw {
                account_id,
                amount,
                currency,
            } => Transaction::withdrawal(AccountId::customer(account_id)?, money(*amount, currency)?),
            Self::Transfer {
                from,
                to,
                amount,
                currency,
            } => {
                let (from, to) = (AccountId::customer(from)?, AccountId::customer(to)?);
                Transaction::transfer(from, to, money(*amount, currency)?)?
            }
            Self::Reverse { transaction_id } => reversal(tx, transaction_id).await?,
        };
        let posted = posting::post(tx, transaction, locking).await?;
        Ok(Outcome::Posted(Record::of(&posted)))
    }
}

fn money(amount: i64, currency: &str) -> Result<Money, Refusal> {
    Money::new(amount, Currency::parse(currency)?)
}

async fn reversal(tx: &Tx, transaction_id: &str) -> Result<Transaction, Failure> {
    let id = Uuid::try_parse(transaction_id).map_err(|_not_an_id| Refusal::UnknownTransaction)?;
    let record = journal::find(tx, id).await?.ok_or(Refusal::UnknownTransaction)?;
    if record.reversed_by.is_some() {
        return Err(Refusal::ReversedTwice.into());
    }
    Ok(record.transaction()?.reversal()?)
}
