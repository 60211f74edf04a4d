import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** RocketMQ's stock mqadmin: runs each line of its input as one command. */
public class AdminCommands {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.err.flush();
            MQAdminStartup.main0(line.split(" "), null);
            System.out.println("@end");
            System.out.flush();
        }
        System.exit(0);
    }
}
