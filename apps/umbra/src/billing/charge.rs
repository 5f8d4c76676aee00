//! Charging: an attempt is scheduled, the card API is called, and the outcome is stored once.

use std::sync::Arc;

use postroom::{BoxError, Database, Error, ErrorKind, Event, ExternalTask, HOPS, Result, Tx, append, clock, schedule};
use time::OffsetDateTime;

use super::attempt::{self, Attempt, Fate};
use super::card::{Answer, CardApi, Charge};
use super::domain::{After, Outcome, Pace, Subscription};
use super::events::{
    BILLING_KEY_ID, ChargeRequested, PaymentFailed, PaymentFailedFinal, PaymentRefunded, PaymentSucceeded,
    SubscriptionStarted, USER_ID,
};
use super::tables;
use crate::door::new_id;
use crate::order;
use crate::rows::{from_ms, to_ms};

/// The card API and the timing of charges.
#[derive(Clone, Debug)]
pub(crate) struct Till {
    pub(crate) cards: Arc<dyn CardApi>,
    pub(crate) pace: Pace,
}

/// `umbra-charges`: executes the charges that are due.
///
/// The card API is called outside any transaction, between two committed transactions. The first one stores the charge, the
/// second one the outcome. So the attempt row always shows the progress of a charge, and any process can continue from there:
///
/// - Before the first commit the card API was not called. A charge that is no longer wanted is dropped.
/// - After the first commit the card API may have been called. It is called again, with the same charge and key, until the
///   outcome is known, also when the subscription has changed. A crash here costs one more call.
/// - A payment that is no longer wanted is refunded in the same two steps.
/// - After the last commit nothing is left to do.
///
/// Two concurrent processes make the same call and get the same answer; the second one finds the outcome already stored. An
/// unknown outcome is an error, so the event is retried.
impl ExternalTask for Till {
    async fn run(&self, db: &Database, event: &Event) -> Result<(), BoxError> {
        let due: ChargeRequested = event.decode()?;
        let mut attempt = Attempt::Open;
        loop {
            attempt = match attempt {
                Attempt::Open => Self::prepare(db, &due).await?,
                Attempt::Asked(charge) => self.ask(db, &due, &charge).await?,
                Attempt::Refunding(charge) => self.refund(db, &due, &charge).await?,
                Attempt::Closed => return Ok(()),
            };
        }
    }
}

impl Till {
    /// Reads the progress of the attempt. An attempt that has just become due is marked as asked, or dropped.
    async fn prepare(db: &Database, due: &ChargeRequested) -> Result<Attempt> {
        let tx = db.begin().await?;
        let Some(mut subscription) = tables::lock(&tx, &due.subscription_id).await? else {
            return Ok(Attempt::Closed);
        };
        let mut attempt = attempt::lock(&tx, &due.attempt_id).await?;
        if attempt == Attempt::Open {
            let charge = match subscription.is_to_be_charged() {
                true => ask_for(&tx, &subscription, &due.attempt_id).await?,
                false => None,
            };
            if charge.is_none() {
                tables::save(&tx, &mut subscription).await?;
                attempt::close(&tx, &due.attempt_id, Fate::Dropped).await?;
            }
            attempt = charge.map_or(Attempt::Closed, Attempt::Asked);
        }
        tx.commit().await?;
        Ok(attempt)
    }

    /// Calls the card API and stores the outcome.
    async fn ask(&self, db: &Database, due: &ChargeRequested, charge: &Charge) -> Result<Attempt> {
        let answer = self.cards.charge(charge).await;
        if let Answer::Unknown { says } = answer {
            return Err(unknown("the charge", due, &says));
        }
        let tx = db.begin().await?;
        let attempt = self.settle(&tx, due, &answer).await?;
        tx.commit().await?;
        Ok(attempt)
    }

    /// Stores the outcome of a charge and its consequences. An attempt that another process has closed stays unchanged.
    pub(super) async fn settle(&self, tx: &Tx, due: &ChargeRequested, answer: &Answer) -> Result<Attempt> {
        let Some(mut subscription) = tables::lock(tx, &due.subscription_id).await? else {
            return Ok(Attempt::Closed);
        };
        let attempt = attempt::lock(tx, &due.attempt_id).await?;
        let Attempt::Asked(charge) = attempt else {
            return Ok(attempt);
        };
        let (outcome, fate) = match answer {
            Answer::Paid => (Outcome::Paid, Fate::Paid),
            Answer::Declined { code } => (Outcome::Declined, Fate::Declined(code)),
            Answer::Unknown { .. } => return Ok(Attempt::Asked(charge)),
        };
        let now = from_ms(to_ms(clock::now()));
        let after = subscription.settle(outcome, now, &self.pace);
        let (fate, attempt) = match after {
            After::Unwanted => (Fate::Refunding, Attempt::Refunding(charge)),
            _ => (fate, Attempt::Closed),
        };
        tables::save(tx, &mut subscription).await?;
        attempt::close(tx, &due.attempt_id, fate).await?;
        announce(tx, &subscription, due, after).await?;
        Ok(attempt)
    }

    /// Refunds the payment and emits the event. A refund that the bank declines becomes a dead letter at once: a retry would
    /// not help, and a person must find another way.
    async fn refund(&self, db: &Database, due: &ChargeRequested, charge: &Charge) -> Result<Attempt> {
        match self.cards.refund(charge).await {
            Answer::Paid => {}
            Answer::Unknown { says } => return Err(unknown("the refund", due, &says)),
            Answer::Declined { code } => {
                let says = format!("the refund of {} was declined: {code}", due.attempt_id);
                return Err(Error::invalid(says));
            }
        }
        let tx = db.begin().await?;
        let subscription = tables::lock(&tx, &due.subscription_id).await?;
        let attempt = attempt::lock(&tx, &due.attempt_id).await?;
        if let (Some(subscription), Attempt::Refunding(_)) = (subscription, attempt) {
            attempt::close(&tx, &due.attempt_id, Fate::Refunded).await?;
            append(&tx, &[refunded(&subscription, charge)?]).await?;
        }
        tx.commit().await?;
        Ok(Attempt::Closed)
    }
}

fn unknown(what: &str, due: &ChargeRequested, says: &str) -> Error {
    let says = format!("the outcome of {what} {} is unknown: {says}", due.attempt_id);
    Error::new(ErrorKind::Failed, says)
}

/// Stores the charge for the next period of a subscription, before the card API is called. `None` when the card was deleted.
pub(super) async fn ask_for(tx: &Tx, subscription: &Subscription, attempt_id: &str) -> Result<Option<Charge>> {
    let key = tables::lock_key(tx, &subscription.billing_key_id).await?;
    let Some(key) = key.filter(|key| !key.is_deleted) else {
        return Ok(None);
    };
    let plan = subscription.plan_to_pay();
    let charge = Charge {
        attempt_id: attempt_id.to_owned(),
        card_token: key.card_token,
        amount: plan.price(),
    };
    attempt::ask(tx, plan, &charge).await?;
    Ok(Some(charge))
}

/// Emits the event for the outcome and schedules the next charge.
async fn announce(tx: &Tx, subscription: &Subscription, due: &ChargeRequested, after: After) -> Result<()> {
    let subscription_id = subscription.subscription_id.clone();
    let attempt_id = due.attempt_id.clone();
    let next_at = match after {
        After::Started(period_end) => {
            append(tx, &[started(subscription)?]).await?;
            period_end
        }
        After::Renewed(new_period_end) => {
            let succeeded = PaymentSucceeded {
                subscription_id,
                attempt_id,
                new_period_end,
            };
            order::emit(tx, &succeeded, subscription.version).await?;
            new_period_end
        }
        After::Retry(retry_at) => {
            let failed = PaymentFailed {
                subscription_id,
                attempt_id,
                retry_count: subscription.failures,
            };
            order::emit(tx, &failed, subscription.version).await?;
            retry_at
        }
        After::GivenUp => {
            order::emit(tx, &PaymentFailedFinal { subscription_id }, subscription.version).await?;
            return Ok(());
        }
        After::Unwanted | After::Nothing => return Ok(()),
    };
    request(tx, &subscription.subscription_id, next_at).await?;
    Ok(())
}

fn started(subscription: &Subscription) -> Result<Event> {
    let started = SubscriptionStarted {
        subscription_id: subscription.subscription_id.clone(),
        guild_id: subscription.guild_id.clone(),
        plan_code: subscription.plan.code().to_owned(),
    };
    Ok(order::event_of(&started, subscription.version)?
        .header(BILLING_KEY_ID, &subscription.billing_key_id)
        .header(USER_ID, &subscription.user_id))
}

fn refunded(subscription: &Subscription, charge: &Charge) -> Result<Event> {
    let refunded = Event::of(&PaymentRefunded {
        subscription_id: subscription.subscription_id.clone(),
        attempt_id: charge.attempt_id.clone(),
        amount: charge.amount,
    })?;
    Ok(refunded.header(USER_ID, &subscription.user_id))
}

/// Creates an attempt and schedules its charge. The calendar causes the charge, so it starts a new causal chain. Otherwise a
/// subscription that renews for years would look like an event loop.
pub(super) async fn request(tx: &Tx, subscription_id: &str, due_at: OffsetDateTime) -> Result<ChargeRequested> {
    let requested = ChargeRequested {
        subscription_id: subscription_id.to_owned(),
        attempt_id: new_id(),
    };
    attempt::open(tx, &requested.attempt_id, subscription_id).await?;
    let mut event = Event::of(&requested)?;
    event.headers.remove(HOPS);
    schedule(tx, &event, due_at).await?;
    Ok(requested)
}
