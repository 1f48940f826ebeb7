import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.lucene.analysis.core.KeywordAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.DoublePoint;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.NumericDocValuesField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.Term;
import org.apache.lucene.monitor.MatchingQueries;
import org.apache.lucene.monitor.Monitor;
import org.apache.lucene.monitor.MonitorConfiguration;
import org.apache.lucene.monitor.MonitorQuery;
import org.apache.lucene.monitor.QueryMatch;
import org.apache.lucene.monitor.TermFilteredPresearcher;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.FieldExistsQuery;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.TermQuery;

/** Matches events against conjunctions with Lucene's Monitor, the library behind the percolators of search engines. */
public final class Percolator {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] given) throws Exception {
        Path folder = Path.of(given[0]);
        int most = Integer.parseInt(given[1]);
        double seconds = Double.parseDouble(given[2]);
        MonitorConfiguration settings = new MonitorConfiguration().setQueryUpdateBufferSize(10_000);
        try (Monitor monitor = new Monitor(new KeywordAnalyzer(), new TermFilteredPresearcher(), settings)) {
            List<MonitorQuery> queries = new ArrayList<>();
            try (BufferedReader lines = Files.newBufferedReader(folder.resolve("conjunctions.jsonl"))) {
                String line;
                while ((line = lines.readLine()) != null) {
                    queries.add(new MonitorQuery(Integer.toString(queries.size()), query(JSON.readTree(line))));
                }
            }
            monitor.register(queries);
            List<Document> events = new ArrayList<>();
            try (BufferedReader lines = Files.newBufferedReader(folder.resolve("events.jsonl"))) {
                String line;
                while ((line = lines.readLine()) != null && events.size() < most) {
                    events.add(document(JSON.readTree(line)));
                }
            }
            run(monitor, events, seconds / 2);  // warms up
            double[] found = run(monitor, events, seconds);
            System.out.printf("{\"events\": %d, \"pairs\": %d, \"cpu_us\": %.3f}%n", (long) found[0], (long) found[1], found[2]);
        }
    }

    private static double[] run(Monitor monitor, List<Document> events, double seconds) throws Exception {
        var threads = ManagementFactory.getThreadMXBean();
        long begin = threads.getCurrentThreadCpuTime();
        long pairs = 0, count = 0;
        for (Document event : events) {
            MatchingQueries<QueryMatch> matches = monitor.match(event, QueryMatch.SIMPLE_MATCHER);
            pairs += matches.getMatchCount();
            count++;
            if (threads.getCurrentThreadCpuTime() - begin > seconds * 1e9) break;
        }
        return new double[] {count, pairs, (threads.getCurrentThreadCpuTime() - begin) / 1e3 / count};
    }

    private static Query query(JsonNode predicates) {
        BooleanQuery.Builder all = new BooleanQuery.Builder();
        for (JsonNode one : predicates) {
            String name = one.get(0).asText(), operator = one.get(1).asText();
            JsonNode operand = one.get(2);
            switch (operator) {
                case "=" -> all.add(equal(name, operand), Occur.MUST);
                case "!=" -> {
                    all.add(new FieldExistsQuery(name + "?"), Occur.MUST);
                    all.add(equal(name, operand), Occur.MUST_NOT);
                }
                case "in" -> {
                    BooleanQuery.Builder any = new BooleanQuery.Builder();
                    for (JsonNode member : operand) any.add(equal(name, member), Occur.SHOULD);
                    all.add(any.build(), Occur.MUST);
                }
                case "all" -> { for (JsonNode member : operand) all.add(equal(name, member), Occur.MUST); }
                case "between" -> all.add(DoublePoint.newRangeQuery(name, operand.get(0).asDouble(), operand.get(1).asDouble()), Occur.MUST);
                default -> throw new IllegalArgumentException(operator);
            }
        }
        return all.build();
    }

    private static Query equal(String name, JsonNode value) {
        return new TermQuery(new Term(name, value.isTextual() ? value.asText() : "#" + value.asDouble()));
    }

    private static Document document(JsonNode event) {
        Document document = new Document();
        for (var fields = event.fields(); fields.hasNext();) {
            Map.Entry<String, JsonNode> field = fields.next();
            String name = field.getKey();
            document.add(new NumericDocValuesField(name + "?", 1));
            JsonNode value = field.getValue();
            if (value.isArray()) for (JsonNode member : value) add(document, name, member);
            else add(document, name, value);
        }
        return document;
    }

    private static void add(Document document, String name, JsonNode value) {
        if (value.isTextual() || value.isBoolean()) {
            document.add(new StringField(name, value.asText(), Field.Store.NO));
        } else {
            document.add(new StringField(name, "#" + value.asDouble(), Field.Store.NO));
            document.add(new DoublePoint(name, value.asDouble()));
        }
    }
}
