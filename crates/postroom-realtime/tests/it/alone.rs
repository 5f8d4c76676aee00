//! Limits of memory. They are measured with nothing else in the process.
