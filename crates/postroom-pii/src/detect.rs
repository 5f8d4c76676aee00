//! One detector per file. A detector searches one view of a text, in linear time, and reports ranges of the view.

pub(crate) mod assignment;
mod card;
pub(crate) mod email;
pub(crate) mod encoded;
pub(crate) mod number;
mod phone;
mod resident;
pub(crate) mod secret;
pub(crate) mod spelled;
