//! Handlers: a plain async function, or a type with state of its own.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;

use serde::de::DeserializeOwned;

use crate::error::{BoxError, Error};
use crate::event::{DomainEvent, Event};
use crate::store::tx::Tx;

type Running<'a> = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'a>>;

/// Handles one event inside a transaction.
///
/// Any `async fn(&mut Tx, &Event) -> Result<(), E>` is a handler. Implement the trait for a type that has state.
///
/// The writes of a handler through `tx`, and the events that it emits, commit together with the record that the event was handled,
/// or not at all. Any error means a retry by the subscriber's policy. An error of [`crate::reject`], or any other in whose chain is a
/// [`crate::Error`] of kind `Invalid`, makes the event a dead letter at once.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "write an `async fn(&mut Tx, &Event) -> Result<(), E>`, where `E` is any error type and the future is `Send`"
)]
pub trait Handler: Send + Sync {
    /// Handles one event.
    fn handle(&self, tx: &mut Tx, event: &Event) -> impl Future<Output = Result<(), BoxError>> + Send;
}

/// Handles several events at once inside a transaction, for example to fold them into one statement.
///
/// Any `async fn(&mut Tx, &[&Event]) -> Result<(), E>` is one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a batch handler",
    note = "write an `async fn(&mut Tx, &[&Event]) -> Result<(), E>`, where `E` is any error type and the future is `Send`"
)]
pub trait BatchHandler: Send + Sync {
    /// Handles all of them or fails.
    fn handle(&self, tx: &mut Tx, events: &[&Event]) -> impl Future<Output = Result<(), BoxError>> + Send;
}

/// An `async fn(Context, Input) -> Result<(), E>`, for arguments that are borrowed for `'a`. The compiler finds the
/// implementation.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an `async fn({Context}, {Input}) -> Result<(), E>`",
    label = "a subscriber cannot call this",
    note = "the arguments must have exactly these types; `E` is any error type; the future must be `Send`"
)]
pub trait AsyncFunction<'a, Context, Input>: Send + Sync {
    /// The error of the function.
    type Error: Into<BoxError> + 'static;
    /// The value that the function returns.
    type Running: Future<Output = Result<(), Self::Error>> + Send + 'a;
    /// Calls it.
    fn call(&self, context: Context, input: Input) -> Self::Running;
}

impl<'a, Context, Input, F, Running, E> AsyncFunction<'a, Context, Input> for F
where
    F: Fn(Context, Input) -> Running + Send + Sync,
    Running: Future<Output = Result<(), E>> + Send + 'a,
    E: Into<BoxError> + 'static,
{
    type Error = E;
    type Running = Running;

    fn call(&self, context: Context, input: Input) -> Running {
        self(context, input)
    }
}

impl<F> Handler for F
where
    F: for<'a> AsyncFunction<'a, &'a mut Tx, &'a Event>,
{
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        self.call(tx, event).await.map_err(boxed)
    }
}

impl<F> BatchHandler for F
where
    F: for<'a> AsyncFunction<'a, &'a mut Tx, &'a [&'a Event]>,
{
    async fn handle(&self, tx: &mut Tx, events: &[&Event]) -> Result<(), BoxError> {
        self.call(tx, events).await.map_err(boxed)
    }
}

/// Boxes an error. An `anyhow::Error` hides its first error from whoever has it in a box, so its kind is read before.
pub(crate) fn boxed<E: Into<BoxError> + 'static>(error: E) -> BoxError {
    let mut error = Some(error);
    let any: &mut dyn Any = &mut error;
    if let Some(error) = any.downcast_mut::<Option<anyhow::Error>>().and_then(Option::take) {
        return Error::of_anyhow(error).into();
    }
    error.map_or_else(|| "the handler failed".into(), Into::into)
}

/// A function that takes one type of event, decoded. An event that cannot be decoded is rejected.
pub(crate) struct Typed<E, F> {
    function: F,
    event: PhantomData<fn(E)>,
}

impl<E, F> Typed<E, F> {
    pub(crate) fn new(function: F) -> Self {
        Self {
            function,
            event: PhantomData,
        }
    }
}

impl<E, F> Handler for Typed<E, F>
where
    E: DomainEvent + DeserializeOwned + Send,
    F: for<'a> AsyncFunction<'a, &'a mut Tx, E>,
{
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        let event: E = event.decode()?;
        self.function.call(tx, event).await.map_err(boxed)
    }
}

/// Some handler, whatever its type.
pub struct BoxHandler(Box<dyn CallOne>);

impl BoxHandler {
    /// Hides the type of a handler.
    pub fn new(handler: impl Handler + 'static) -> Self {
        Self(Box::new(handler))
    }
}

impl Handler for BoxHandler {
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        self.0.call(tx, event).await
    }
}

impl fmt::Debug for BoxHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxHandler")
    }
}

/// [`Handler`] without a type of its own.
trait CallOne: Send + Sync {
    fn call<'a>(&'a self, tx: &'a mut Tx, event: &'a Event) -> Running<'a>;
}

impl<H: Handler> CallOne for H {
    fn call<'a>(&'a self, tx: &'a mut Tx, event: &'a Event) -> Running<'a> {
        Box::pin(self.handle(tx, event))
    }
}

/// Some batch handler, whatever its type.
pub struct BoxBatchHandler(Box<dyn CallBatch>);

impl BoxBatchHandler {
    /// Hides the type of a batch handler.
    pub fn new(handler: impl BatchHandler + 'static) -> Self {
        Self(Box::new(handler))
    }
}

impl BatchHandler for BoxBatchHandler {
    async fn handle(&self, tx: &mut Tx, events: &[&Event]) -> Result<(), BoxError> {
        self.0.call(tx, events).await
    }
}

impl fmt::Debug for BoxBatchHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxBatchHandler")
    }
}

/// [`BatchHandler`] without a type of its own.
trait CallBatch: Send + Sync {
    fn call<'a>(&'a self, tx: &'a mut Tx, events: &'a [&'a Event]) -> Running<'a>;
}

impl<H: BatchHandler> CallBatch for H {
    fn call<'a>(&'a self, tx: &'a mut Tx, events: &'a [&'a Event]) -> Running<'a> {
        Box::pin(self.handle(tx, events))
    }
}
