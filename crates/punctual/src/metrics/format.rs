//! The two formats of a page: OpenMetrics 1.0, and Prometheus's older format (0.0.4) for clients
//! that do not ask for OpenMetrics.
//!
//! They differ in the name of a counter's family (without or with `_total`), and the older one has
//! neither units nor an end mark.

/// The format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// <https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md>
    OpenMetrics,
    /// <https://prometheus.io/docs/instrumenting/exposition_formats/>
    Text,
}

impl Format {
    /// Chooses by an Accept field: OpenMetrics if it is named and not refused.
    pub fn accepted(accept: &str) -> Self {
        let named = accept.split(',').any(|one| {
            let mut parts = one.split(';').map(str::trim);
            let refused = parts.clone().skip(1).any(|parameter| {
                let q = parameter.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok());
                q.is_some_and(|q| q <= 0.0)
            });
            let kind = parts.next().unwrap_or_default();
            kind.eq_ignore_ascii_case("application/openmetrics-text") && !refused
        });
        if named { Self::OpenMetrics } else { Self::Text }
    }

    /// Returns the format's name in HTTP.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Converts a page of OpenMetrics to this format.
    pub fn of(self, page: &str) -> String {
        match self {
            Self::OpenMetrics => page.to_owned(),
            Self::Text => text(page),
        }
    }
}

fn text(page: &str) -> String {
    let is_counter = |name: &str| page.contains(&format!("# TYPE {name} counter\n"));
    let mut lines = String::with_capacity(page.len());
    for line in page.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let head = ["# HELP ", "# TYPE "]
            .into_iter()
            .find_map(|kind| Some((kind, line.strip_prefix(kind)?)));
        match head.and_then(|(kind, rest)| Some((kind, rest.split_once(' ')?))) {
            Some((kind, (name, rest))) if is_counter(name) => {
                lines += &format!("{kind}{name}_total {rest}\n");
            }
            _ => {
                lines += line;
                lines.push('\n');
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_clients_that_ask_for_it() {
        for (accept, format) in [
            ("application/openmetrics-text; version=1.0.0,text/plain;q=0.5", Format::OpenMetrics),
            ("text/plain;q=0.9, Application/OpenMetrics-Text;q=0.1", Format::OpenMetrics),
            ("application/openmetrics-text;q=0, */*", Format::Text),
            ("*/*", Format::Text),
            ("", Format::Text),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }

    #[test]
    fn the_older_format_names_counters_with_their_suffix() {
        let page = "# HELP a_seconds Of a.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
                    a_seconds_total{b=\"# TYPE \"} 1\n# HELP c C.\n# TYPE c gauge\nc 2\n# EOF\n";
        let older = "# HELP a_seconds_total Of a.\n# TYPE a_seconds_total counter\n\
                     a_seconds_total{b=\"# TYPE \"} 1\n# HELP c C.\n# TYPE c gauge\nc 2\n";
        assert_eq!(Format::Text.of(page), older);
        assert_eq!(Format::OpenMetrics.of(page), page);
    }
}
