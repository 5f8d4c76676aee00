//! Charging: an attempt is opened and its time set, the card is asked, and what comes of it is written down once.

use std::sync::Arc;

use async_trait::async_trait;
use postroom::{Error, ErrorKind, Event, HOPS, Handler, Result, append, clock, emit, schedule};
use sea_orm::DatabaseTransaction;
use time::OffsetDateTime;

use super::card::{Answer, CardApi, Charge};
use super::domain::{After, Outcome, Pace, Subscription};
use super::events::{
    BILLING_KEY_ID, ChargeRequested, PaymentFailed, PaymentFailedFinal, PaymentSucceeded, SubscriptionStarted, USER_ID,
};
use super::tables;
use crate::door::new_id;
use crate::rows::{from_ms, to_ms};

/// What charging needs.
#[derive(Clone, Debug)]
pub(crate) struct Till {
    pub(crate) cards: Arc<dyn CardApi>,
    pub(crate) pace: Pace,
}

/// `umbra-charges`: charges what is due. Delivered again, or by two processes at once, it asks with the same attempt id, which
/// is the card API's idempotency key; and an attempt that is closed stays as it is. What nobody knows the outcome of is an
/// error, and so asked again.
#[async_trait]
impl Handler for Till {
    async fn handle(&self, tx: &DatabaseTransaction, event: &Event) -> Result<()> {
        let due: ChargeRequested = event.decode()?;
        let Some(charge) = Self::prepare(tx, &due).await? else {
            return Ok(());
        };
        match self.cards.charge(&charge).await {
            Answer::Unknown { says } => Err(Error::new(
                ErrorKind::Failed,
                format!("nobody knows what became of the charge {}: {says}", due.attempt_id),
            )),
            answer => self.settle(tx, &due, &answer).await.map(drop),
        }
    }
}

impl Till {
    /// What to ask the card API for; `None` when there is nothing to charge any more.
    async fn prepare(tx: &DatabaseTransaction, due: &ChargeRequested) -> Result<Option<Charge>> {
        let Some(mut subscription) = tables::lock(tx, &due.subscription_id).await? else {
            return Ok(None);
        };
        if !tables::is_open(tx, &due.attempt_id).await? {
            return Ok(None);
        }
        let charge = match subscription.is_to_be_charged() {
            true => charge_for(tx, &subscription, &due.attempt_id).await?,
            false => None,
        };
        if charge.is_none() {
            tables::save(tx, &subscription).await?;
            tables::close_attempt(tx, &due.attempt_id, "dropped", None).await?;
        }
        Ok(charge)
    }

    /// Writes down what a charge came to, and what follows. An attempt that somebody else has closed is left alone.
    pub(super) async fn settle(
        &self,
        tx: &DatabaseTransaction,
        due: &ChargeRequested,
        answer: &Answer,
    ) -> Result<Option<Subscription>> {
        let Some(mut subscription) = tables::lock(tx, &due.subscription_id).await? else {
            return Ok(None);
        };
        if !tables::is_open(tx, &due.attempt_id).await? {
            return Ok(Some(subscription));
        }
        let (outcome, status, code) = match answer {
            Answer::Paid => (Outcome::Paid, "paid", None),
            Answer::Declined { code } => (Outcome::Declined, "declined", Some(code.as_str())),
            Answer::Unknown { .. } => return Ok(Some(subscription)),
        };
        let now = from_ms(to_ms(clock::now()));
        let after = subscription.settle(outcome, now, &self.pace);
        tables::save(tx, &subscription).await?;
        tables::close_attempt(tx, &due.attempt_id, status, code).await?;
        announce(tx, &subscription, due, after).await?;
        Ok(Some(subscription))
    }
}

/// The charge for a subscription's next period; `None` when its card was taken away.
pub(super) async fn charge_for(
    tx: &DatabaseTransaction,
    subscription: &Subscription,
    attempt_id: &str,
) -> Result<Option<Charge>> {
    let key = tables::lock_key(tx, &subscription.billing_key_id).await?;
    let charge = |key: tables::BillingKey| Charge {
        attempt_id: attempt_id.to_owned(),
        card_token: key.card_token,
        amount: subscription.plan_to_pay().price(),
    };
    Ok(key.filter(|key| !key.is_deleted).map(charge))
}

/// Says what happened, and sets the time of the next charge.
async fn announce(
    tx: &DatabaseTransaction,
    subscription: &Subscription,
    due: &ChargeRequested,
    after: After,
) -> Result<()> {
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
            emit(tx, &succeeded).await?;
            new_period_end
        }
        After::Retry(retry_at) => {
            let failed = PaymentFailed {
                subscription_id,
                attempt_id,
                retry_count: subscription.failures,
            };
            emit(tx, &failed).await?;
            retry_at
        }
        After::GivenUp => {
            emit(tx, &PaymentFailedFinal { subscription_id }).await?;
            return Ok(());
        }
        After::Nothing => return Ok(()),
    };
    request(tx, &subscription.subscription_id, next_at).await?;
    Ok(())
}

fn started(subscription: &Subscription) -> Result<Event> {
    let started = Event::of(&SubscriptionStarted {
        subscription_id: subscription.subscription_id.clone(),
        guild_id: subscription.guild_id.clone(),
        plan_code: subscription.plan.code().to_owned(),
    })?;
    Ok(started
        .header(BILLING_KEY_ID, &subscription.billing_key_id)
        .header(USER_ID, &subscription.user_id))
}

/// Opens an attempt and sets its time. A charge is caused by the calendar, so it begins a chain of its own: a subscription that
/// renews itself for years is no loop.
pub(super) async fn request(
    tx: &DatabaseTransaction,
    subscription_id: &str,
    due_at: OffsetDateTime,
) -> Result<ChargeRequested> {
    let requested = ChargeRequested {
        subscription_id: subscription_id.to_owned(),
        attempt_id: new_id(),
    };
    tables::open_attempt(tx, &requested.attempt_id, subscription_id).await?;
    let mut event = Event::of(&requested)?;
    event.headers.remove(HOPS);
    schedule(tx, &event, due_at).await?;
    Ok(requested)
}
