//! Umbra as a guest meets it: requests over HTTP, and what comes of them.

mod site;

mod flow;
