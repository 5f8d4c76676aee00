// The numbers of one stream: those that the database has, and those that a member has received.

export function createReceived() {
  const cells = new Map(); // number -> { state: "due" | "missing" | "live" | "late" | "silent", at }
  const listeners = [];
  const received = {
    cells,
    first: undefined, // numbers before it are not this page's
    duplicates: 0,
    onChange: (listener) => listeners.push(listener),

    // The stream begins here for this page.
    begin(top) {
      received.first ??= top + 1;
      changed();
    },

    // Answers whether the page knew that it was missing.
    arrive(number) {
      received.first ??= number;
      const known = cells.get(number)?.state;
      const wasMissing = known === "missing";
      if (known === "live" || known === "late") received.duplicates += 1;
      else cells.set(number, { state: wasMissing ? "late" : "live", at: Date.now() });
      changed();
      return wasMissing;
    },

    // The database has these numbers. A number that has just been written is on its way; the next time it is missing.
    exists(numbers) {
      for (const { seq, isSilent } of numbers) {
        const known = cells.get(seq)?.state;
        if (seq < received.first || known === "live" || known === "late" || known === "silent") continue;
        cells.set(seq, { state: isSilent ? "silent" : known ? "missing" : "due", at: Date.now() });
      }
      changed();
    },

    missing: () => [...cells].filter(([, cell]) => ["due", "missing"].includes(cell.state)).map(([number]) => number),
    arrivedSince: (at) => [...cells].filter(([, cell]) => cell.at >= at && ["live", "late"].includes(cell.state)).map(([number]) => number),
    top: () => Math.max(0, ...cells.keys()),
  };

  function changed() {
    for (const number of [...cells.keys()].slice(0, -400)) cells.delete(number);
    listeners.forEach((listener) => listener());
  }

  return received;
}
