//! A terminal that is drawn over in place, and given back as it was.

use std::io::{self, Write};

use anyhow::Result;

/// The alternate screen, without cursor and line wrap.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
/// Removes what an earlier, longer line or picture left.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// The terminal while it is ours. Dropping it gives it back.
#[derive(Debug)]
pub struct Screen {
    out: io::Stdout,
}

impl Screen {
    /// Takes the terminal.
    pub fn enter() -> Result<Self> {
        let mut screen = Self { out: io::stdout() };
        screen.send(ENTER)?;
        Ok(screen)
    }

    /// Draws a picture over the last one, in one write so that it does not flicker.
    pub fn draw(&mut self, lines: &[String]) -> Result<()> {
        let lines = lines.join(&format!("{CLEAR_LINE}\r\n"));
        self.send(&format!("{HOME}{lines}{CLEAR_LINE}{CLEAR_BELOW}"))
    }

    fn send(&mut self, text: &str) -> Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        self.send(LEAVE).unwrap_or_default();
    }
}
