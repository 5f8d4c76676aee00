//! The catalogue as a picture: modules to the left, their events in the middle, who listens to the right.

use std::collections::BTreeMap;

use super::Catalogue;
use crate::front::escape;

const ROW: usize = 26;
const TOP: usize = 58;
/// Where the three columns begin, and how wide each is.
const COLUMNS: [(usize, usize); 3] = [(20, 150), (260, 330), (690, 260)];
const WIDTH: usize = 970;
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1f2430}text.head{font-weight:600}\
    rect{rx:5;stroke-width:1}.module{fill:#dbe7ff;stroke:#5b7fc7}.event{fill:#fff4d6;stroke:#c79a2e}\
    .group{fill:#dff3e4;stroke:#4d9c63}path{fill:none;stroke:#8b93a5;stroke-width:1.2;opacity:.65}";

/// Boxes of one column, from the top: their names and how far down each stands.
type Column<'a> = BTreeMap<&'a str, usize>;

pub(super) fn svg(catalogue: &Catalogue) -> String {
    let mut events: Vec<_> = catalogue.events.iter().collect();
    events.sort_by_key(|listed| (listed.publisher, listed.event.name));
    let middle = stacked(events.iter().map(|listed| listed.event.name));
    let left = beside(
        events.iter().map(|listed| (listed.publisher, listed.event.name)),
        &middle,
    );
    let listeners: Vec<(&str, Vec<String>)> = events
        .iter()
        .map(|listed| (listed.event.name, listed.listeners()))
        .collect();
    let listening = listeners
        .iter()
        .flat_map(|(event, groups)| groups.iter().map(move |group| (group.as_str(), *event)));
    let right = beside(listening, &middle);
    let columns = [("module", &left), ("event", &middle), ("group", &right)];
    let bottom = columns.iter().filter_map(|(_, column)| column.values().max()).max();
    let height = bottom.map_or(TOP, |bottom| bottom + 2 * ROW);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\">\
         <title>Who emits what, and who listens</title><style>{STYLE}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for (listed, (name, groups)) in events.iter().zip(&listeners) {
        svg.push_str(&arrow(left.get(listed.publisher), 0, middle.get(name)));
        for group in groups {
            svg.push_str(&arrow(middle.get(name), 1, right.get(group.as_str())));
        }
    }
    for ((class, column), ((x, width), title)) in columns
        .into_iter()
        .zip(COLUMNS.into_iter().zip(["emits", "event", "listens"]))
    {
        svg.push_str(&text(x, 34, "head", title));
        for (name, y) in column {
            svg.push_str(&boxed(x, *y, width, class, name));
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn stacked<'a>(names: impl Iterator<Item = &'a str>) -> Column<'a> {
    names.enumerate().map(|(row, name)| (name, TOP + row * ROW)).collect()
}

/// Each name as near as there is room to the middle of those it belongs to.
fn beside<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>, other: &Column<'_>) -> Column<'a> {
    let mut wanted: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (name, partner) in pairs {
        let (sum, count) = wanted.entry(name).or_default();
        *sum += other.get(partner).copied().unwrap_or(TOP);
        *count += 1;
    }
    let mut order: Vec<(usize, &str)> = wanted
        .into_iter()
        .map(|(name, (sum, count))| (sum / count, name))
        .collect();
    order.sort_unstable();
    let mut next = TOP;
    let place = |(middle, name): (usize, &'a str)| {
        let y = middle.max(next);
        next = y + ROW;
        (name, y)
    };
    order.into_iter().map(place).collect()
}

/// From the box `from` in a column to the box `to` in the next one.
fn arrow(from: Option<&usize>, column: usize, to: Option<&usize>) -> String {
    let (Some(from), Some(to), Some((x, width)), Some((end, _))) =
        (from, to, COLUMNS.get(column), COLUMNS.get(column + 1))
    else {
        return String::new();
    };
    let (begin, bend, half) = (x + width, (x + width + end) / 2, ROW / 2 - 2);
    let (from, to) = (from + half, to + half);
    format!("<path d=\"M{begin} {from} C{bend} {from} {bend} {to} {end} {to}\"/>\n")
}

fn boxed(x: usize, y: usize, width: usize, class: &str, name: &str) -> String {
    let mut svg = format!(
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{}\"/>",
        ROW - 5
    );
    svg.push_str(&text(x + 8, y + 15, "name", name));
    svg
}

fn text(x: usize, y: usize, class: &str, words: &str) -> String {
    format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>\n", escape(words))
}
